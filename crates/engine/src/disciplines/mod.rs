//! The disciplines, one file each, and the one list of them.
//!
//! To add one: copy `fifo.rs`, write the algorithm, and add its word to the list below.

use crate::kind::Kind;

/// Declares the modules and the list in one place, so that neither can be forgotten.
macro_rules! disciplines {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every kind of this crate, in the order of the list.
        pub static KINDS: &[&Kind] = &[$(&$name::KIND),*];
    };
}

disciplines! {
    fifo
    red
    codel
    fq_codel
    cake
    pie
    dualpi2
    blue
    rio
    police
    cbq
    wfq
    priq
    drr
    wrr
    hfsc
    tbf
    ips
    pacer
}
