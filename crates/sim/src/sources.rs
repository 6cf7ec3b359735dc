//! Sources that do not listen to what they are answered. One file each; `constant.rs` is the template.

mod constant;
mod listener;

pub use constant::Constant;
pub use listener::Listener;
