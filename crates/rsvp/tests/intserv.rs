//! Arithmetic of IntServ requests: order, merging, sums, and the rounding of the wire's numbers.

#[path = "wire/arbitrary.rs"]
#[expect(dead_code, reason = "other tests build whole messages")]
mod arbitrary;
#[path = "intserv/flowspec.rs"]
mod flowspec;
#[path = "intserv/guaranteed.rs"]
mod guaranteed;
