//! The name of a class: one text for all that have it. A class of a policy is named by what the
//! policy says, by the tree that runs, and by the plans and queues of both; of very many classes
//! the copies took more memory than their settings.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A name, whose clones share its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassName(Arc<str>);

impl ClassName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ClassName {
    fn default() -> Self {
        Self::from("")
    }
}

impl Deref for ClassName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ClassName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ClassName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for ClassName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<&String> for ClassName {
    fn from(name: &String) -> Self {
        Self(name.as_str().into())
    }
}

impl From<String> for ClassName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&ClassName> for String {
    fn from(name: &ClassName) -> Self {
        name.as_str().to_owned()
    }
}

impl From<ClassName> for String {
    fn from(name: ClassName) -> Self {
        Self::from(&name)
    }
}

impl PartialEq<str> for ClassName {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for ClassName {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for ClassName {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<ClassName> for String {
    fn eq(&self, other: &ClassName) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<ClassName> for str {
    fn eq(&self, other: &ClassName) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<ClassName> for &str {
    fn eq(&self, other: &ClassName) -> bool {
        *self == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_name_is_as_its_text_from_either_side() {
        let name = ClassName::from("calls");
        let (same, other) = ("calls".to_owned(), "rest".to_owned());
        assert_eq!((name == same, same == name), (true, true));
        assert_eq!((name == other, other == name), (false, false));
        let (same, other) = (same.as_str(), other.as_str());
        assert_eq!((name == same, same == name), (true, true));
        assert_eq!((name == other, other == name), (false, false));
        assert_eq!((name == *same, *same == name), (true, true));
        assert_eq!((name == *other, *other == name), (false, false));
        assert_eq!((name.len(), name.as_ref()), (5, "calls"));
        assert_eq!(String::from(name.clone()), "calls");
        assert_eq!(format!("{name} {name:?}"), "calls \"calls\"");
        assert_eq!(ClassName::default(), ClassName::from(String::new()));
    }

    #[test]
    fn a_map_of_names_is_asked_by_text() {
        let map = HashMap::from([
            (ClassName::from("calls"), 1),
            (ClassName::from(&"rest".to_owned()), 2),
        ]);
        assert_eq!(
            (map.get("calls"), map.get("rest"), map.get("")),
            (Some(&1), Some(&2), None)
        );
    }
}
