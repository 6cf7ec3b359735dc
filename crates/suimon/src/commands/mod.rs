//! The verbs, one file each: a struct of arguments with a method `run`.

pub mod accept;
pub mod bottlenet;
pub mod check;
pub mod demo;
pub mod kinds;
pub mod lab;
pub mod nine;
pub mod nine_top;
pub mod pace;
pub mod reproduce;
pub mod reserve;
pub mod run;
pub mod set;
pub mod sim;
pub mod status;
pub mod top;
pub mod traffic;
