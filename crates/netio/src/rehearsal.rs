//! What a change would do, tried beside the packet loop: a path with no packets runs the same plan,
//! and gets the change by the same code as the running one.
//!
//! Whether a discipline adopts settings follows from its plan, and from those that it was built
//! with. The tree here is built from the plan that runs: where the running one was built for an
//! earlier plan (the lanes of `cbq` are made for the rates of that), it may answer otherwise.

use crate::handle::{Adopted, ClassChanges, Declined, Done, PreparedRetune, Retune, Retuned};
use crate::path::{ChangedByClass, ClassJob, Path};
use crate::pool::Pool;
use crate::replay::{Beginning, headers_pool};
use engine::units::Instant;
use std::io;

/// A path that no packet passes.
#[derive(Debug)]
pub struct Rehearsal {
    path: Path,
    pool: Pool,
}

impl Rehearsal {
    /// A path that begins so.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(beginning: Beginning) -> io::Result<Self> {
        let mut pool = headers_pool()?;
        Ok(Self {
            path: Path::new(beginning.spec(), 0, &mut pool),
            pool,
        })
    }

    /// As [`Handle::change_classes`](crate::handle::Handle::change_classes).
    ///
    /// # Errors
    /// If it cannot be done by the class.
    pub fn change_classes(&mut self, changes: ClassChanges) -> Result<Adopted, Declined> {
        let (done, answer) = Done::new();
        let Self { path, pool } = self;
        path.begin_change(Instant::START, pool, ClassJob::of(changes), done);
        path.end_change(Instant::START, pool);
        match answer.try_recv() {
            Ok(Some(ChangedByClass::Adopted(adopted, _left_over))) => Ok(adopted),
            Ok(Some(ChangedByClass::Refused(why, _left_over))) => Err(why),
            Ok(None) | Err(_) => unreachable!("a change that has ended is answered"),
        }
    }

    /// As [`Handle::retune`](crate::handle::Handle::retune).
    pub fn retune(&mut self, retune: Retune) -> Adopted {
        let (done, answer) = Done::new();
        let Self { path, pool } = self;
        let prepared = PreparedRetune::new(retune, &path.present(pool));
        path.retune(Instant::START, pool, Box::new(prepared), done);
        path.end_change(Instant::START, pool);
        match answer.try_recv() {
            Ok(Some(Retuned::Adopted(adopted, _left_over))) => adopted,
            Ok(_) | Err(_) => unreachable!("it is prepared for what the path runs"),
        }
    }
}
