//! A directory of one test.

use std::fs;
use std::path::PathBuf;

/// A directory of this test alone, removed at its end.
pub struct TestDirectory(pub PathBuf);

impl TestDirectory {
    /// The name is unique among the tests of a file.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("suimon-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes a file; its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("a file");
        self.path(name)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
