//! A waiting job, as a discipline sees it.

use std::borrow::Cow;
use std::time::Duration;

use crate::shape::Shape;
use crate::space::ROW;
use crate::space::Shadow;
use crate::space::ledger::{Ledger, fits_row};
use crate::{JobId, JobRequest, Matrix, SchedTime};

/// A job that waits and is not due.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    request: &'a JobRequest,
    /// The matrix. The nodes that reservations keep from the job are closed.
    matrix: Cow<'a, Matrix>,
    ledger: &'a Ledger,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(request: &'a JobRequest, matrix: &'a Matrix, ledger: &'a Ledger) -> Self {
        Self { request, matrix: Cow::Borrowed(matrix), ledger }
    }

    /// Like [`Candidate::new`], for a matrix in which no nodes are closed yet.
    pub(crate) fn among(request: &'a JobRequest, matrix: &'a Matrix, ledger: &'a Ledger) -> Self {
        let mut matrix = Cow::Borrowed(matrix);
        if !ledger.book().is_empty() {
            ledger.close_for(matrix.to_mut(), request);
        }
        Self { request, matrix, ledger }
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.request.id
    }

    /// The job's request.
    #[must_use]
    pub fn request(&self) -> &'a JobRequest {
        self.request
    }

    /// The PEs on which a job can start now ([`crate::space::Space::free_pes`]).
    #[must_use]
    pub fn free_pes(&self) -> u32 {
        self.ledger.free_pes()
    }

    /// The PEs of the nodes that take work, or are expected back.
    #[must_use]
    pub fn expected_pes(&self) -> u32 {
        self.matrix.machine().expected_pes()
    }

    /// The time of the event that is being decided on.
    #[must_use]
    pub fn now(&self) -> SchedTime {
        self.ledger.now()
    }

    /// The run time assumed for the job: its time limit, or the default.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        self.ledger.estimate(self.request)
    }

    /// When the job would end by its estimate if it started now.
    #[must_use]
    pub fn end(&self) -> SchedTime {
        self.now() + self.estimate()
    }

    /// Whether the job asks only for a number of PEs and nothing is reserved. If so, the number of
    /// free PEs decides whether it fits.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.request.is_plain() && self.ledger.book().is_empty()
    }

    /// Whether the job can start now. A job that asks for more than a number of PEs needs PEs that
    /// no job holds.
    #[must_use]
    pub fn fits(&self) -> bool {
        if self.is_plain() {
            return self.request.procs <= self.ledger.free_pes();
        }
        !self.ledger.anybody_due() && fits_row(&self.matrix, self.request)
    }

    /// The PEs that the job would hold if it started now. If the job does not fit: the PEs that its
    /// processes need.
    #[must_use]
    pub fn pes_now(&self) -> u32 {
        self.matrix.would_hold(self.request, ROW).unwrap_or_else(|| self.request.pes())
    }

    /// Whether the job would fit with nothing running and no reservation of others under way. Only
    /// the nodes that are up count, and those that are expected back.
    #[must_use]
    pub fn is_placeable(&self) -> bool {
        let (book, shape) = (self.ledger.book(), Shape::of(self.request));
        if book.is_empty() {
            return self.matrix.expected_shortfall(shape).is_none();
        }
        self.matrix.open_shortfall(shape, book.own_nodes(self.request)).is_none()
    }

    /// When the job can start by the estimates of the running jobs, and how many PEs are spare
    /// then. `None` when the job does not fit the nodes that are up or away.
    #[must_use]
    pub fn shadow(&self) -> Option<Shadow> {
        Shadow::of(self.request, &self.matrix, self.ledger)
    }
}
