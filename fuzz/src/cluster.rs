//! A small cluster for the targets that feed daemons.

use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::Peer;
use storm_mm::{CoreConfig, NodeConfig, PartitionConfig};
use storm_rm::{ContentHash, Destination, FileSpec, JobSpec, Owner, Program, StepSpec};
use storm_sched::{MplLimit, PolicyParams};

/// Compute nodes.
pub const NODES: u32 = 4;
/// Processing elements of each.
pub const PES: u32 = 2;
/// The submitting user.
pub const MM_USER: Peer = Peer { uid: 1000, gid: 1000, pid: 1, by_door: false };

/// The manager of the cluster, under this policy.
pub fn manager_config(sched: &str) -> CoreConfig {
    let mpl_limit = MplLimit::try_from(3).expect("three rows are allowed");
    CoreConfig {
        cluster: "fuzz".to_owned(),
        nodes: (1..=NODES).map(|n| NodeConfig::new(format!("n{n}"), PES)).collect(),
        partitions: vec![PartitionConfig {
            name: "all".to_owned(),
            nodes: (0..NODES as usize).collect(),
            sched: sched.to_owned(),
            params: PolicyParams { mpl_limit, ..PolicyParams::default() },
            default: true,
        }],
        policies: storm_sched::Registry::standard(),
        job_slots: 3,
        heartbeat_bytes: 64 * 1024,
        chunk_bytes: 4096,
        kill_grace: Duration::from_millis(50),
        launch_timeout: Duration::from_millis(70),
        recovery_timeout: Duration::from_secs(1),
        requeue_fence: Duration::from_millis(90),
        strobe_span: std::time::Duration::from_millis(200),
        history_limit: 8,
        array_max: 8,
        user_jobs_max: 64,
        service: Default::default(),
        admin_uids: Vec::new(),
        clients: None,
        origin: jiff::Timestamp::UNIX_EPOCH,
        user_name: Rc::new(|_| None),
    }
}

/// A job of `procs` ranks.
pub fn job_spec(procs: u32, shipped: bool, requeue: bool) -> JobSpec {
    let file = FileSpec {
        hash: ContentHash([1; 32]),
        size_bytes: 1,
        mode: 0o755,
        name: "program".into(),
        destination: Destination::JobDirectory,
    };
    let program = if shipped { Program::Shipped(file) } else { Program::OnNodes("/p".into()) };
    JobSpec {
        name: "job".to_owned(),
        owner: Owner { uid: MM_USER.uid, gid: MM_USER.gid },
        procs,
        first: storm_rm::FirstStep::Program,
        nodes: None,
        resources: storm_rm::Resources::default(),
        partition: None,
        sched: None,
        time_limit: None,
        early_signal: None,
        step: StepSpec::plain("p", program),
        requeue,
        needs: Default::default(),
        remarks: Default::default(),
    }
}
