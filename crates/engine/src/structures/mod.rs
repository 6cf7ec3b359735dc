//! The data structures of the disciplines: what each is for, and when to take which.
//!
//! All of them work on *elements* that are numbered from 0 (classes, flows, queues), keep their
//! links in arrays indexed by that number, and allocate nothing after construction unless stated
//! otherwise.
//!
//! Who is next, by a key:
//!
//! | take | when |
//! |---|---|
//! | `heaps` | few of many elements are in, or they come and go; the key of any of them may change |
//! | `fronted_heap` | the same, but few are in at a time and mostly the first leaves |
//! | `winner_tree` | many elements are in, and the first gets a new key all the time |
//! | [`calendar`] | the key is a time, very many elements, and none has to be cancelled |
//! | [`timer_wheel`] | the key is a time, and timers are moved and cancelled as often as they expire |
//! | `timers` | the same, and there may be few elements |
//! | `lengths` | only the greatest matters, and exact to 1/32 is enough: constant time |
//!
//! Everything else:
//!
//! | take | when |
//! |---|---|
//! | `rings` | members share by weight, in constant time: deficit round robin |
//! | `shortcuts` | of a ring's members only some count: the first from the head on, in log *n* |
//! | `lists` | packets queue in many lists that share one array |
//! | `packet_ring` | packets queue in one list, which grows as needed |
//! | `keyed` | a member is found by a key (a hash table of fixed size) |
//! | [`shared_list`] | copies of a plan differ in few classes; grows as needed |

pub mod calendar;
pub(crate) mod fronted_heap;
pub(crate) mod heaps;
pub(crate) mod keyed;
pub(crate) mod lengths;
pub(crate) mod lists;
pub(crate) mod packet_ring;
pub(crate) mod rings;
pub mod shared_list;
pub(crate) mod shortcuts;
pub mod timer_wheel;
pub(crate) mod timers;
pub(crate) mod winner_tree;
