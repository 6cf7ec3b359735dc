//! What the files of `netio` use of their crate: loom's in place of the standard library's, and
//! memory that is shared by counting.

pub(crate) mod sync {
    //! In place of `netio::sync`.

    pub(crate) use loom::sync::{Mutex, atomic};
}

pub(crate) mod mapping {
    //! In place of `netio::mapping`: the same cells for all clones. Cells of 32 and of 64 bits are
    //! apart, since none is used in both widths.

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, AtomicU64};
    use std::cell::RefCell;
    use std::io;
    use std::os::fd::BorrowedFd;

    #[derive(Clone, Debug)]
    pub(crate) struct Mapping {
        words: Arc<Vec<AtomicU64>>,
        halves: Arc<Vec<AtomicU32>>,
    }

    thread_local! {
        static OF_THE_KERNEL: RefCell<Option<Mapping>> = const { RefCell::new(None) };
    }

    /// The file that was mapped last, as the kernel has it.
    pub(crate) fn of_the_kernel() -> Mapping {
        OF_THE_KERNEL.take().expect("a file was mapped")
    }

    impl Mapping {
        pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
            Ok(Self {
                words: Arc::new((0..len / 8).map(|_| AtomicU64::new(0)).collect()),
                halves: Arc::new((0..len / 4).map(|_| AtomicU32::new(0)).collect()),
            })
        }

        pub(crate) fn of(_fd: BorrowedFd<'_>, len: usize, _offset: i64) -> io::Result<Self> {
            let cells = Self::anonymous(len)?;
            OF_THE_KERNEL.set(Some(cells.clone()));
            Ok(cells)
        }

        pub(crate) fn len(&self) -> usize {
            self.words.len() * 8
        }

        pub(crate) fn words(&self) -> &[AtomicU64] {
            &self.words
        }

        pub(crate) fn halves(&self) -> &[AtomicU32] {
            &self.halves
        }
    }

    #[cfg(test)]
    pub(crate) mod tests {
        //! For the tests in these files, which are checked here and run there.

        use super::Mapping;

        pub(crate) fn twice(len: usize) -> [Mapping; 2] {
            let one = Mapping::anonymous(len).expect("memory");
            [one.clone(), one]
        }
    }
}

pub(crate) mod clock {
    //! In place of `netio::clock`.

    use engine::units::Instant;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Moment {
        pub(crate) at: Instant,
        pub(crate) realtime: u64,
    }

    pub(crate) fn now() -> Instant {
        Instant::START
    }
}

pub(crate) mod sys {
    //! In place of `netio::sys`: time stands still.

    pub(crate) fn realtime() -> u64 {
        1_700_000_000_000_000_000
    }
}

pub(crate) mod syscall {
    //! In place of `netio::bpf::syscall`: no kernel is asked.

    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Hook {
        Ingress,
        Egress,
    }

    pub(crate) fn new_cell(_bytes: usize) -> io::Result<OwnedFd> {
        Ok(File::open("/dev/null")?.into())
    }
}
