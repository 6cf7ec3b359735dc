//! What `cake` is made of: queues for each flow that are served fairly by host and by flow
//! ([`host_fair`]), each kept short by COBALT ([`cobalt`]).

pub(crate) mod cobalt;
pub(crate) mod host_fair;
