//! How often a test is asked to do something: CI asks for nothing, a campaign for much.

/// A number that an environment variable has.
///
/// # Panics
///
/// If it is something else.
pub fn number(variable: &str) -> Option<u64> {
    let said = std::env::var(variable).ok();
    said.map(|text| text.parse().expect("a number"))
}
