//! Colour detection: colours are used if the output is a terminal that supports them and the user
//! has not opted out (`NO_COLOR`, <https://no-color.org>).

use std::io::IsTerminal;

/// Returns whether to use colours on this output.
pub fn wanted(output: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && is_capable(output)
}

/// Returns whether this output is a terminal that supports control sequences: colours and
/// redrawing.
pub fn is_capable(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
