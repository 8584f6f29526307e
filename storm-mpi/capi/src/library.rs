//! The library between `MPI_Init` and `MPI_Finalize`: the session, and the objects that are built
//! on it.

use crate::fault::Outcome;
use crate::file::OpenFile;
use crate::session::Session;
use crate::table::{FILE, Table, WINDOW};
use crate::window::Window;
use std::cell::RefCell;
use std::rc::Rc;
use storm_mpi::Process;

/// The objects of this process.
pub(crate) struct Library {
    pub(crate) session: Session,
    pub(crate) windows: RefCell<Table<Rc<Window>>>,
    pub(crate) files: RefCell<Table<Rc<OpenFile>>>,
}

impl Library {
    pub(crate) fn new(process: Process) -> Self {
        Library {
            session: Session::new(process),
            windows: RefCell::new(Table::new(WINDOW, [])),
            files: RefCell::new(Table::new(FILE, [])),
        }
    }

    /// Leaves the windows that the program has not freed, when no member sends requests to them any
    /// more. All members take part, and a waiting member serves the others. Windows are left in the
    /// order in which they were made, so no two members wait for each other.
    pub(crate) fn leave_windows(&self) -> Outcome {
        let mut left: Vec<_> = self.windows.borrow().objects().cloned().collect();
        left.sort_by_key(|window| window.number);
        left.iter().try_for_each(|window| window.barrier())?;
        left.iter().for_each(|window| window.leave());
        Ok(())
    }
}
