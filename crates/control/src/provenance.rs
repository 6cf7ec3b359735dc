//! Who asked for a change, and why.

use crate::text_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;

/// Who asked for a change, and why.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The user, and behind root the one who had logged in; none if the program did it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What they said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Provenance {
    /// Of a client that is this process, of this user.
    pub fn of(process: i32, user: u32, reason: Option<String>) -> Self {
        let login = fs::read_to_string(format!("/proc/{process}/loginuid"));
        let login = login.ok().and_then(|text| text.trim().parse::<u32>().ok());
        let mut author = name(user);
        // The kernel has the greatest number where nobody logged in.
        if let Some(login) = login.filter(|login| *login != u32::MAX && *login != user) {
            author = format!("{author} for {}", name(login));
        }
        Self {
            author: Some(author),
            reason,
        }
    }
}

impl fmt::Display for Provenance {
    /// `by root for anna: more for the concert`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let author = self.author.iter().map(|author| format!("by {author}"));
        let parts: Vec<String> = author.chain(self.reason.clone()).collect();
        f.write_str(&parts.join(": "))
    }
}

/// A user's name, or number.
fn name(uid: u32) -> String {
    let users = text_file::read(Path::new("/etc/passwd"), text_file::LONGEST).unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("user {uid}"))
}
