//! Generated parts of pages that people write: the text between a mark and an end.

/// The page with new text between `mark` and the next `end`; `None` if it lacks them.
pub fn replaced(page: &str, mark: &str, end: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(mark)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{mark}\n\n{}\n{end}{after}", text.trim_end()))
}
