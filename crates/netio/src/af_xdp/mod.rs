//! `af_xdp`
pub mod ring;
pub mod socket;
pub mod umem;
