//! `cargo xtask ci | tidy`.
fn main() {}
