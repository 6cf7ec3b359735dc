//! Whether colours are shown: where output is a terminal that has them, unless the person said no
//! (`NO_COLOR`, <https://no-color.org>).

use std::io::IsTerminal;

/// Whether this output takes colours, and they are wanted.
pub fn wanted(output: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && is_capable(output)
}

/// Whether this output is a terminal that heeds control sequences: colours, and drawing over what was drawn.
pub fn is_capable(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
