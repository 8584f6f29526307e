//! Brings a job on both nodes of a cluster into a phase in which a fault hits the second node, and
//! checks the result.

use crate::scratch::caller::Caller;
use crate::scratch::{stdout, told};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

/// More than is in flight at a time: no transfer ends while one of its nodes is stopped.
const PROGRAM_BYTES: usize = 8 << 20;

/// Reports that it runs and that it was ordered to end, and ends only when killed.
const STUBBORN: &str = "trap 'touch told-$STORM_JOB_ID-$STORM_RANK' TERM
                        touch runs-$STORM_JOB_ID-$STORM_RANK
                        while :; do sleep 0.05; done # stubborn";

/// The phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The program is on its way to the nodes.
    Transfer,
    /// The ranks run.
    Run,
    /// The ranks were ordered to end, and do not.
    Termination,
}

impl Phase {
    /// In the order of a job's phases.
    const ALL: [Phase; 3] = [Phase::Transfer, Phase::Run, Phase::Termination];

    /// Tests each phase at the same time, on a cluster of its own: most of the time is spent
    /// waiting for a timeout.
    pub(crate) fn in_each(tried: impl Fn(Phase) + Sync) {
        let tried = &tried;
        thread::scope(|scope| {
            for phase in Phase::ALL {
                scope.spawn(move || tried(phase));
            }
        });
    }

    /// Lines of the configuration for these tests.
    pub(crate) fn settings(node_hung: &str) -> String {
        format!(
            "partitions = [{{ name = \"main\", sched = \"fcfs\" }}]\n\
             timeouts = {{ node-hung = \"{node_hung}\", node-return = \"0s\", kill-grace = \"5s\" }}"
        )
    }

    /// Brings a job into this phase. `stop` stops the second node, so that its transfer does not
    /// end.
    pub(crate) fn enter(self, caller: &Caller<'_>, stop: impl FnOnce()) -> u64 {
        if self == Phase::Transfer {
            return large_job(caller, stop);
        }
        let job = caller.submit_script("", STUBBORN).expect("a manager");
        await_files(caller, &format!("runs-{job}"));
        caller.until(job, "RUNNING");
        if self == Phase::Termination {
            caller.cancel(job);
            await_files(caller, &format!("told-{job}"));
        }
        job
    }

    /// Waits until the job has ended as it must if its second node is lost.
    pub(crate) fn assert_end(self, caller: &Caller<'_>, job: u64) {
        let state = match self {
            Phase::Transfer | Phase::Run => "NODE_FAIL",
            Phase::Termination => "CANCELLED",
        };
        let ended = caller.until(job, state);
        let reason = ended["reason"].as_str().unwrap_or_default();
        assert!(self == Phase::Termination || reason.contains("n2"), "{ended}");
    }
}

/// Checks that both nodes are back, no rank is left, and a job on both nodes succeeds.
pub(crate) fn assert_well(caller: &Caller<'_>) {
    caller.until_idle(2);
    let stubborn = || caller.scratch.processes().iter().any(|line| line.contains("stubborn"));
    caller.wait_for("queue", |_| (!stubborn()).then_some(()));
    let done = caller.storm("run -n 2 -N 2 --no-bcast /bin/echo well").output();
    let done = done.expect("storm starts");
    assert_eq!(stdout(&done), "well\nwell\n", "{}", told(&done));
}

/// A job whose program is being sent. Slow steps are done before a node is stopped: the job waits
/// for another, which is then cancelled.
fn large_job(caller: &Caller<'_>, stop: impl FnOnce()) -> u64 {
    let first = caller.submit("-n 2 -N 1 --no-bcast", &["/bin/sleep", "600"]);
    let first = first.expect("a manager");
    assert_eq!(caller.until(first, "RUNNING")["node_list"], "n1");
    let program = caller.scratch.work().join("large");
    let mut content = b"#!/bin/sh\nexit\n".to_vec();
    content.resize(PROGRAM_BYTES, b'#');
    fs::write(&program, content).expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("ours");
    let job = caller.submit("-n 2 -N 2", &["./large"]).expect("a manager");
    stop();
    caller.cancel(first);
    caller.until_because(job, "files are being sent");
    job
}

/// Waits until both ranks have made their file.
fn await_files(caller: &Caller<'_>, name: &str) {
    let work = caller.scratch.work();
    let made = |rank| work.join(format!("{name}-{rank}")).exists();
    caller.wait_for("queue", |_| (made(0) && made(1)).then_some(()));
}
