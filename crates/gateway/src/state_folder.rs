//! The folder in which generations outlive the program, and the one way to write to it: a new file
//! beside the old one, brought to the disk, then given its name. A crash leaves the old or the new.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Files by their names. Each call is on the disk when it returns, or has failed.
pub(crate) trait Folder: Send + std::fmt::Debug {
    fn names(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// From now on it is this program's alone, if it is not yet.
    ///
    /// # Errors
    ///
    /// Returns an error if it is another's.
    fn own(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is being written ends so; a crash may leave it.
pub(crate) const UNFINISHED: &str = ".new";

/// Writes this file as a whole.
pub(crate) fn replace(folder: &mut dyn Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}{UNFINISHED}");
    let written = folder
        .create(&unfinished, bytes)
        .and_then(|()| folder.rename(&unfinished, name));
    if written.is_err() {
        // A full disk has the more room. What cannot be removed harms nothing.
        let _ = folder.remove(&unfinished);
    }
    written
}

/// A folder of the disk, for one program at a time.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    /// Locked as long as it is open.
    folder: File,
}

impl Disk {
    /// Opens or makes it; the error says which folder, and what to do.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let unusable = |why: io::Error| format!("cannot keep the state in {shown}: {why}");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(unusable)?;
        let mut disk = Self::of_another(path).map_err(unusable)?;
        match disk.own() {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Err(format!(
                "another suimon keeps its state in {shown}: give each a folder of its own"
            )),
            owned => owned.map(|()| disk).map_err(unusable),
        }
    }

    /// Opens the folder of a program that ends when this one has taken its place.
    pub(crate) fn of_another(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.into(),
            folder: File::open(path)?,
        })
    }

    /// Refuses to write where another folder has taken the name: without the generations before it
    /// a start could not read what is written there.
    fn in_place(&self) -> io::Result<()> {
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        let named = fs::metadata(&self.path).ok().map(place);
        if named == Some(place(self.folder.metadata()?)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} was removed or replaced since `run` began: start it again to have a state",
            self.path.display()
        )))
    }
}

impl Folder for Disk {
    fn names(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
        let names = fs::read_dir(&self.path)?
            .map(name)
            .collect::<io::Result<Vec<_>>>()?;
        Ok(names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.in_place()?;
        let mut file = File::create(self.path.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.in_place()?;
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.folder.sync_all()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.in_place()?;
        fs::remove_file(self.path.join(name))?;
        self.folder.sync_all()
    }

    fn own(&mut self) -> io::Result<()> {
        self.folder.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(why) => why,
        })
    }
}

#[cfg(test)]
pub(crate) mod failing;
