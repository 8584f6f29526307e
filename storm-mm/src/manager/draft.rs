//! Commands that name active rows: the launch of a job and the answer to a join.
//!
//! A command of this kind is decided before it leaves, because it waits for the journal and for
//! room in a heartbeat. Strobes do not wait for the journal, so another row may be active when the
//! command leaves. The core therefore decides a [`Draft`] without rows. The rows are entered once,
//! when the draft leaves.

use std::rc::Rc;
use storm_primitives::NodeId;
use storm_rm::message::{ClientsAddress, Command, LaunchJob, ResumedJob};
use storm_rm::{
    ArrayTask, Coscheduling, JobIncarnation, JobSlot, JobSpec, LaunchFacts, PartitionId, RankMap,
    Row, RowSet, StepRef,
};

/// A command that lacks the active rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draft {
    /// The draft of [`Command::LaunchJob`].
    Launch(Rc<Launch>),
    /// The draft of [`Command::Resume`].
    Resume {
        /// The jobs that continue.
        jobs: Vec<Resumed>,
        /// The first run that the manager may send to the node.
        next_run: JobIncarnation,
        /// Where users of the node's host reach the manager.
        clients: Option<ClientsAddress>,
    },
}

/// A [`LaunchJob`] without the active row. The fields are described there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `LaunchJob`")]
pub struct Launch {
    pub step: StepRef,
    pub incarnation: JobIncarnation,
    pub place: JobIncarnation,
    pub slot: JobSlot,
    pub task: Option<ArrayTask>,
    pub spec: Rc<JobSpec>,
    pub ranks: RankMap,
    pub partition: PartitionId,
    pub rows: RowSet,
    pub coscheduling: Coscheduling,
    pub announcer: NodeId,
    pub node_list: String,
    pub buffered: bool,
    pub hold_output: bool,
    pub facts: LaunchFacts,
}

/// A [`ResumedJob`] without the active row. The fields are described there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `ResumedJob`")]
pub struct Resumed {
    pub step: StepRef,
    pub incarnation: JobIncarnation,
    pub slot: JobSlot,
    pub partition: PartitionId,
    pub rows: RowSet,
    pub coscheduling: Coscheduling,
    pub hold_output: bool,
}

/// The active row of each partition, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveRows(Vec<Row>);

impl FromIterator<Row> for ActiveRows {
    /// The rows of the partitions, in the order of their numbers.
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> ActiveRows {
        ActiveRows(rows.into_iter().collect())
    }
}

impl ActiveRows {
    /// The active row of a partition.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn of(&self, partition: PartitionId) -> Row {
        self.0[usize::from(partition.0)]
    }
}

impl Draft {
    /// The command, if it leaves while these rows are active.
    pub fn command(&self, active: &ActiveRows) -> Command {
        match self {
            Draft::Launch(launch) => {
                let active_row = active.of(launch.partition);
                Command::LaunchJob(Rc::new(launch.in_row(active_row)))
            }
            Draft::Resume { jobs, next_run, clients } => {
                let jobs = jobs.iter().map(|job| job.in_row(active.of(job.partition))).collect();
                Command::Resume { jobs, next_run: *next_run, clients: *clients }
            }
        }
    }
}

impl Launch {
    fn in_row(&self, active_row: Row) -> LaunchJob {
        // Names all fields, so that the compiler rejects a new field that is missing here.
        let Launch {
            step,
            incarnation,
            place,
            slot,
            task,
            spec,
            ranks,
            partition,
            rows,
            coscheduling,
            announcer,
            node_list,
            buffered,
            hold_output,
            facts,
        } = self.clone();
        LaunchJob {
            step,
            incarnation,
            place,
            slot,
            task,
            spec,
            ranks,
            partition,
            rows,
            active_row,
            coscheduling,
            announcer,
            node_list,
            buffered,
            hold_output,
            facts,
        }
    }
}

impl Resumed {
    fn in_row(&self, active_row: Row) -> ResumedJob {
        let Resumed { step, incarnation, slot, partition, rows, coscheduling, hold_output } = *self;
        ResumedJob {
            step,
            incarnation,
            slot,
            partition,
            rows,
            active_row,
            coscheduling,
            hold_output,
        }
    }
}
