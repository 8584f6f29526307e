//! STORM: `storm submit`, `storm run`, and many requests on one connection.

use super::JobSystem;
use super::job_system::JOB;
use crate::cluster::Cluster;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use storm_mm::api::{Client, HistoryQuery, JobState, ManagerRequest, Reply};
use storm_rm::{JobSpec, OutputSpec, Program};
use tokio::runtime::{Builder, Runtime};

/// A job that does not end.
const SLEEP: &str = "/bin/sleep";
/// The pause between two queries whether all have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// The longest wait for a cluster. A cluster that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(300);
/// Requests without an answer on the connection.
const WINDOW: u32 = 128;

/// A local cluster, and a connection to it.
#[derive(Debug)]
pub struct StormJobs {
    client: Client,
    runtime: Runtime,
    cluster: Cluster,
    ended: u64,
}

impl StormJobs {
    /// Starts a cluster; `options` are additional ones of `storm up`.
    ///
    /// # Errors
    /// The cluster did not start.
    pub fn up(nodes: u32, pes: u32, options: &[&str]) -> Result<StormJobs> {
        let cluster = Cluster::up(nodes, pes, options)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(Client::connect(cluster.socket()))?;
        Ok(StormJobs { client, runtime, cluster, ended: 0 })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Fills `pes` processing elements with a job that does not end, and queues `jobs` one-process
    /// jobs behind it. The cluster needs a space-sharing policy.
    ///
    /// # Errors
    /// A submission was refused.
    pub fn queue_behind_a_job(&self, pes: u32, jobs: u32) -> Result<()> {
        let mut blocker = JobSpec { procs: pes, ..self.job() };
        blocker.step.argv = vec![SLEEP.into(), "86400".into()];
        blocker.step.program = Program::OnNodes(SLEEP.into());
        self.runtime.block_on(submit_all(self.cluster.socket(), &blocker, 1))?;
        self.runtime.block_on(submit_all(self.cluster.socket(), &self.job(), jobs))
    }

    fn job(&self) -> JobSpec {
        let mut spec = JobSpec::plain("true", Program::OnNodes(JOB.into()));
        let own = std::env::vars_os();
        spec.step.env = own.map(|(name, value)| (name.into(), value.into())).collect();
        spec.step.output = OutputSpec::Files { stdout: "/dev/null".into(), stderr: None };
        spec
    }
}

impl JobSystem for StormJobs {
    fn name(&self) -> String {
        format!("storm {}", self.client.server().version)
    }

    fn submit(&self) -> Option<Command> {
        let mut command = self.cluster.command();
        command.args(["submit", "--quiet", "--no-bcast", "--output", "/dev/null", JOB]);
        command.stdin(Stdio::null());
        Some(command)
    }

    fn run(&self) -> Command {
        let mut command = self.cluster.command();
        command.args(["run", "--quiet", "--no-bcast", "--input", "none", JOB]);
        command.stdin(Stdio::null());
        command
    }

    fn submit_array(&self, jobs: u32) -> Option<Result<()>> {
        let mut command = self.cluster.command();
        command.args(["submit", "--quiet", "--no-bcast", "--output", "/dev/null", "--array"]);
        command.arg(format!("1-{jobs}")).arg(JOB).stdin(Stdio::null()).stdout(Stdio::null());
        let submitted = command.status().context("cannot start storm").and_then(|status| {
            ensure!(status.success(), "storm submit --array failed: {status}");
            Ok(())
        });
        Some(submitted)
    }

    fn submit_all(&self, jobs: u32) -> Option<Result<()>> {
        let spec = self.job();
        Some(self.runtime.block_on(submit_all(self.cluster.socket(), &spec, jobs)))
    }

    fn wait_ended(&mut self, jobs: u32) -> Result<()> {
        self.ended += u64::from(jobs);
        let since = Instant::now();
        loop {
            let reply = self.runtime.block_on(self.client.call(ManagerRequest::Status))?;
            let Reply::Status { status } = reply else { bail!("not a status: {reply:?}") };
            let under_way = status.jobs_pending + status.jobs_running;
            if status.jobs_submitted >= self.ended && under_way == 0 {
                break;
            }
            ensure!(since.elapsed() < PATIENCE, "{under_way} jobs did not end");
            thread::park_timeout(LOOK_PAUSE);
        }
        let latest = HistoryQuery { limit: jobs, ..HistoryQuery::default() };
        let reply = self.runtime.block_on(self.client.call(ManagerRequest::History(latest)))?;
        let Reply::Jobs { jobs: ended, .. } = reply else { bail!("not a history: {reply:?}") };
        let bad = ended.iter().find(|job| job.state != JobState::Completed);
        ensure!(bad.is_none(), "a job failed: {bad:?}");
        ensure!(ended.len() == jobs as usize, "{} of {jobs} jobs are in history", ended.len());
        Ok(())
    }
}

/// Submits on one connection without waiting for each answer.
async fn submit_all(socket: &Path, spec: &JobSpec, jobs: u32) -> Result<()> {
    let (mut requests, mut replies) = Client::connect(socket).await?.split();
    let (mut sent, mut answered) = (0, 0);
    while answered < jobs {
        while sent < jobs && sent - answered < WINDOW {
            let spec = Box::new(spec.clone());
            requests
                .send(ManagerRequest::Submit {
                    spec,
                    attach: false,
                    service: Default::default(),
                    reservation: None,
                })
                .await?;
            sent += 1;
        }
        match replies.next().await?.context("the manager closed the connection")?.reply {
            Reply::Submitted { .. } => answered += 1,
            other => bail!("a job was not taken: {other:?}"),
        }
    }
    Ok(())
}
