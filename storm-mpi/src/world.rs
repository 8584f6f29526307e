//! A rank's handle on its job: joining, leaving, and the communicator of all ranks.

use crate::communicator::{Communicator, Job};
use crate::error::{CommError, InitError};
use crate::process::Process;
use std::ops::Deref;
use std::rc::Rc;

/// All ranks of the job, seen from this rank (`MPI_COMM_WORLD`): a [`Communicator`], and the
/// resources that exist once per process.
pub struct World {
    all: Communicator,
}

impl World {
    /// Joins the job that the environment names (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`) and waits until
    /// every rank has joined. Without a process manager this process is rank 0 of 1.
    ///
    /// Call it once per process.
    ///
    /// # Errors
    /// [`InitError`].
    pub fn init() -> Result<Self, InitError> {
        let job = Rc::new(Job::new(Process::join()?));
        Ok(World { all: Communicator::world(&job) })
    }

    /// Waits until every rank has finished, then leaves the job. All communication must be over;
    /// communicators that still exist can only fail.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn finalize(self) -> Result<(), CommError> {
        self.all.checked(self.all.job().process.finish())
    }

    /// Seconds since this process joined the job (`MPI_Wtime`).
    pub fn wtime_s(&self) -> f64 {
        self.all.job().started.elapsed().as_secs_f64()
    }

    /// The name of the machine this rank runs on (`MPI_Get_processor_name`).
    pub fn processor_name(&self) -> String {
        crate::process::processor_name()
    }
}

/// A world can be used as a communicator.
impl Deref for World {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.all
    }
}
