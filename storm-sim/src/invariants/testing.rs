//! Facts for the tests of the invariants.

use crate::{Application, JobRequest};
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::JobState;
use storm_mm::job::{EndCause, JobEventKind, Outcome};
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::NodeId;
use storm_rm::message::{NodeRanks, Strobe};
use storm_rm::{JobId, JobIncarnation, PartitionId, Rank, Row, RowSet, StepRef};

/// A run with two ranks on each of these nodes.
pub(super) fn placed(incarnation: u64, row: u32, nodes: &[u32]) -> JobEventKind {
    let share = |(index, node): (usize, &u32)| NodeRanks {
        node: NodeId(*node),
        first: Rank(index as u32 * 2),
        count: 2,
    };
    JobEventKind::Placed {
        incarnation: JobIncarnation(incarnation),
        ranks: nodes.iter().enumerate().map(share).collect(),
        row: Row(row),
        node_list: String::new(),
    }
}

/// The submission of a job to a partition.
pub(super) fn submitted(partition: &str, requeue: bool) -> JobEventKind {
    let request = JobRequest {
        name: "job".to_owned(),
        procs: 1,
        binary_bytes: 0,
        requeue,
        fences: 0,
        partition: Some(partition.to_owned()),
        application: Application::Compute { time: Duration::ZERO },
    };
    JobEventKind::Submitted {
        spec: Rc::new(request.spec(0)),
        partition: partition.to_owned(),
        service: Rc::default(),
    }
}

pub(super) fn ended() -> JobEventKind {
    let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
    JobEventKind::Ended { outcome, exits: Vec::new(), ran: Duration::ZERO }
}

pub(super) fn key(job: u64, incarnation: u64) -> JobKey {
    JobKey { step: StepRef::program(JobId(job)), incarnation: JobIncarnation(incarnation) }
}

pub(super) fn launch(job: u64, incarnation: u64) -> HostAct {
    HostAct::Launch {
        job: key(job, incarnation),
        ranks: 2,
        rows: RowSet::single(Row(0)),
        stopped: false,
    }
}

pub(super) fn ending(cause: EndCause) -> JobEventKind {
    JobEventKind::Ending { cause }
}

pub(super) fn strobe(number: u64, row: u32) -> HostAct {
    let partition = PartitionId(0);
    HostAct::Strobe(Strobe { partition, row: Row(row), number, issued_ns: 0 })
}
