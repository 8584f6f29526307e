//! Entries of the journal of storm 0.1 up to its protocol 5, before jobs had needs, arrays and
//! holds. They are read once, and written anew in the present form.
//!
//! Journals of later versions are refused, not read here.

use super::Entry;
use crate::api::LaunchBreakdown;
use crate::job::{EndCause, JobEvent, JobEventKind, Outcome};
use jiff::Timestamp;
use serde::Deserialize;
use std::rc::Rc;
use std::time::Duration;
use storm_rm::message::{NodeRanks, RankExit};
use storm_rm::{
    Binding, FileSpec, InputSpec, JobId, JobIncarnation, JobSpec, OsBytes, OutputSpec, Owner,
    Program, ResourceLimit, Row,
};

/// Decodes an entry in the former form, without its checksum.
pub(super) fn decode(bytes: &[u8]) -> Result<Entry, postcard::Error> {
    let (job, event) = postcard::from_bytes::<(JobId, FormerEvent)>(bytes)?;
    Ok(Entry::Job(job, JobEvent { at: event.at, kind: event.kind.into() }))
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct FormerEvent {
    at: Timestamp,
    kind: FormerKind,
}

/// In the former order, since postcard writes the number of the variant.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum FormerKind {
    Submitted { spec: Box<FormerSpec>, partition: String },
    Placed { incarnation: JobIncarnation, ranks: Vec<NodeRanks>, row: Row, node_list: String },
    Started { breakdown: LaunchBreakdown },
    Ending { cause: EndCause },
    Ended { outcome: Outcome, exits: Vec<RankExit> },
    Requeued { cause: EndCause },
    Ran { time: Duration },
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct FormerSpec {
    name: String,
    owner: Owner,
    procs: u32,
    nodes: Option<u32>,
    partition: Option<String>,
    sched: Option<String>,
    time_limit: Option<Duration>,
    program: Program,
    argv: Vec<OsBytes>,
    env: Vec<(OsBytes, OsBytes)>,
    cwd: OsBytes,
    umask: u32,
    limits: Vec<ResourceLimit>,
    files: Vec<FileSpec>,
    output: OutputSpec,
    input: InputSpec,
    requeue: bool,
    bind: Binding,
}

impl From<FormerKind> for JobEventKind {
    fn from(former: FormerKind) -> JobEventKind {
        match former {
            FormerKind::Submitted { spec, partition } => JobEventKind::Submitted {
                spec: Rc::new((*spec).into()),
                partition,
                service: Rc::default(),
            },
            FormerKind::Placed { incarnation, ranks, row, node_list } => {
                JobEventKind::Placed { incarnation, ranks, row, node_list }
            }
            FormerKind::Started { breakdown } => JobEventKind::Started { breakdown },
            FormerKind::Ending { cause } => JobEventKind::Ending { cause },
            FormerKind::Ended { outcome, exits } => {
                JobEventKind::Ended { outcome, exits, ran: Duration::ZERO }
            }
            FormerKind::Requeued { cause } => JobEventKind::Requeued { cause },
            FormerKind::Ran { time } => JobEventKind::Ran { time },
        }
    }
}

impl From<FormerSpec> for JobSpec {
    fn from(former: FormerSpec) -> JobSpec {
        JobSpec {
            name: former.name,
            owner: former.owner,
            procs: former.procs,
            nodes: former.nodes,
            partition: former.partition,
            sched: former.sched,
            time_limit: former.time_limit,
            program: former.program,
            argv: former.argv,
            env: former.env.into(),
            cwd: former.cwd,
            umask: former.umask,
            limits: former.limits,
            files: former.files,
            output: former.output,
            input: former.input,
            requeue: former.requeue,
            bind: former.bind,
            resources: Default::default(),
            needs: Default::default(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::JobState;

    /// A job's life as a former journal had it: the bytes of its entries.
    pub(in crate::journal) fn life() -> Vec<Vec<u8>> {
        let spec = FormerSpec {
            name: "old".to_owned(),
            owner: Owner { uid: 7, gid: 8 },
            procs: 3,
            nodes: None,
            partition: None,
            sched: Some("fcfs".to_owned()),
            time_limit: Some(Duration::from_secs(60)),
            program: Program::OnNodes("/bin/true".into()),
            argv: vec!["true".into()],
            env: vec![("A".into(), "b".into())],
            cwd: "/".into(),
            umask: 0o22,
            limits: Vec::new(),
            files: Vec::new(),
            output: OutputSpec::Client,
            input: InputSpec::None,
            requeue: true,
            bind: Binding::None,
        };
        let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
        let kinds = [
            FormerKind::Submitted { spec: Box::new(spec), partition: "main".to_owned() },
            FormerKind::Ran { time: Duration::from_secs(3) },
            FormerKind::Ended { outcome, exits: Vec::new() },
        ];
        let encoded = |kind| {
            let event = FormerEvent { at: Timestamp::UNIX_EPOCH, kind };
            postcard::to_stdvec(&(JobId(5), event)).expect("encodes")
        };
        kinds.into_iter().map(encoded).collect()
    }

    #[test]
    fn a_former_entry_is_read_as_what_it_meant() {
        let entries: Vec<Entry> =
            life().iter().map(|bytes| decode(bytes).expect("decodes")).collect();
        let (JobId(5), JobEvent { kind: JobEventKind::Submitted { spec, partition, .. }, .. }) =
            entries[0].of_job().expect("of a job")
        else {
            panic!("{entries:?}")
        };
        assert_eq!((spec.procs, partition.as_str(), spec.requeue), (3, "main", true));
        assert_eq!(spec.needs, Default::default());
        assert!(
            matches!(&entries[2].of_job().expect("of a job").1.kind, JobEventKind::Ended { outcome, .. }
                         if outcome.state == JobState::Completed)
        );
    }
}
