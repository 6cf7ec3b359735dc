//! `suimon run` as a library: it turns a checked policy into a running data plane, with RSVP beside
//! it.
//!
//! - [`facts`], [`selfcheck`], [`claim`]: what the interfaces are, whether the policy will work,
//!   and that no other suimon manages them; before anything is changed;
//! - [`doctor`]: what of the machine and an interface hinders a policy, to ask before;
//! - [`memory`]: whether the queues' limits fit the memory for frames;
//! - [`direction`], [`realise`], [`assemble`]: ports, paths, realisers, and the
//!   worker;
//! - [`in_force`]: what is in force on each interface, and how it changes while packets flow;
//! - [`autorate`]: interfaces whose rate follows a line that varies; [`followed_line`]: one such;
//! - [`yielding`]: classes whose downloads yield, by the law of `nine`;
//! - `quotas`: classes that may carry so much in a day, a week or a month;
//! - [`experience`]: which paths show the round trips of connections that pass;
//! - [`changes`]: another policy, and back; `as_asked`: whether it runs as it was asked;
//!   [`enforced`]: whether what runs has effect, and `passing_by`: how much passes by it;
//! - [`confined`]: what the program may still do, once all is open;
//! - `recorder`, [`recording`]: what passes an interface, in a ring, and done again from a file;
//! - [`service`], [`supervise`]: requests and messages while packets flow; [`enforce`] does all
//!   of it in order;
//! - `hand_over`, [`heir`]: another program takes this one's place while packets flow;
//! - [`signalling`]: RSVP with sockets, routes and a clock.

#![forbid(unsafe_code)]

pub mod followed_line;
pub mod yielding;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        mod as_asked;
        pub mod assemble;
        pub mod autorate;
        mod change_log;
        pub mod changes;
        pub mod claim;
        pub mod confined;
        pub mod direction;
        pub mod doctor;
        mod ends;
        pub mod enforce;
        pub mod enforced;
        mod error;
        pub mod expected;
        pub mod experience;
        pub mod facts;
        mod generations;
        mod hand_over;
        pub mod heir;
        pub mod in_force;
        pub mod kept;
        pub mod memory;
        mod nat;
        mod passing_by;
        pub mod promises_kept;
        mod quotas;
        pub mod realise;
        mod recorder;
        pub mod recording;
        pub mod selfcheck;
        pub mod service;
        mod service_manager;
        mod shadow;
        #[cfg(test)]
        mod simulated;
        pub mod signalling;
        mod state_folder;
        pub mod supervise;
        pub mod vacancies;
        pub mod what_if;
        mod whole_tree;
        mod workers;

        pub use error::Error;
    }
}
