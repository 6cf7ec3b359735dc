//! What disciplines are made of that share a link among classes.
//!
//! | module | what | used by |
//! |---|---|---|
//! | [`leaves`] | leaf classes' queues: idle, ready, asleep | `priq`, `drr`, `wrr`, `hfsc`, `pacer` |
//! | [`by_delays`] | reservations as classes with a rate, a burst and a delay | `ips` |
//! | [`by_rates`] | reservations as classes with their rate | `cbq`, `hfsc` |
//! | [`class_numbers`] | the classes in a slice of an inspection | all with classes |
//! | [`class_rates`] | admission to a tree of rates: no parent is oversubscribed | `cbq` |
//! | [`credit`] | what a class may still send, in nanobits | `cbq`, `tbf`, `ips`, `hfsc` |
//! | [`credit_bound`] | the worst-case delay of a leaf served by credit and priority | `cbq` |
//! | [`reserved_classes`] | specifications of reservations' classes | all that take reservations |
//! | [`service_curve`] | service curves of two pieces | `hfsc` |

pub(crate) mod by_delays;
pub(crate) mod by_rates;
pub(crate) mod class_numbers;
pub(crate) mod class_rates;
pub(crate) mod credit;
pub(crate) mod credit_bound;
pub(crate) mod leaves;
pub(crate) mod reserved_classes;
pub(crate) mod service_curve;
