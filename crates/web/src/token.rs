//! The word that who changes something has to know: made anew at each start, and told to whoever
//! started the server.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};

/// A random word.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// It is for whoever is told it, and for no log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Another one.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    /// To be told to whoever may change something.
    pub fn told(&self) -> &str {
        &self.0
    }

    /// Whether a request knows it. How long that takes does not tell how much of it was right.
    pub(crate) fn is_known_by(&self, headers: &HeaderMap) -> bool {
        let said = headers.get(AUTHORIZATION).and_then(|said| said.to_str().ok());
        let said = said
            .and_then(|said| said.strip_prefix("Bearer "))
            .unwrap_or_default();
        let differs = |(a, b): (u8, u8)| a ^ b;
        said.len() == self.0.len()
            && said
                .bytes()
                .zip(self.0.bytes())
                .map(differs)
                .fold(0, |all, one| all | one)
                == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_whole_word_is_known() {
        let token = Token::new().expect("random numbers");
        assert_ne!(token, Token::new().expect("random numbers"));
        assert!(token.told().len() == 32 && !format!("{token:?}").contains(token.told()));
        let known = |said: &str| {
            let value = HeaderValue::from_str(said).expect("a value");
            token.is_known_by(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        let word = token.told();
        assert!(known(&format!("Bearer {word}")));
        for wrong in [
            "",
            "Bearer ",
            word,
            &format!("Bearer {}", &word[1..]),
            &format!("Bearer {word}0"),
            &format!("Bearer {}", "0".repeat(32)),
        ] {
            assert!(!known(wrong), "{wrong}");
        }
        assert!(!token.is_known_by(&HeaderMap::new()));
    }
}
