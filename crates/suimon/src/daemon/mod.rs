//! What `suimon run` is made of, and the demo with it: from a checked policy to packets that move.

pub mod direction;
