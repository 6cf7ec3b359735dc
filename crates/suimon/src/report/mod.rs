//! What a run leaves behind: a trace of what each class got, and the ways to show it.
//!
//! [`trace`] holds the numbers and answers questions about them; [`chart`] makes them a [`plot`], which is drawn with
//! the writer of [`svg`]; [`html`] puts pictures and tables on one page; [`terminal`] draws while it happens.

pub mod chart;
pub mod html;
pub mod plot;
pub mod progress;
pub mod simulation;
pub mod svg;
pub mod terminal;
pub mod trace;
