//! A scenario as written in its file.

use super::{Fault, FlexibleEntry, RandomEdits, RandomFaults, ScenarioError};
use crate::profile;
use crate::{Application, JobRequest, MachineConfig};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use storm_qsnet_sim::{Fidelity, Load};

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// A machine, its jobs and its faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// For people.
    #[serde(default)]
    pub title: String,
    /// The seed, unless the command names another.
    #[serde(default)]
    pub seed: u64,
    /// Virtual time in which everything must be over.
    #[serde(default = "an_hour", with = "super::written_time")]
    pub limit: Duration,
    /// The machine.
    pub machine: MachineEntry,
    /// Jobs one by one.
    #[serde(default, rename = "job")]
    pub jobs: Vec<JobEntry>,
    /// Jobs from the seed.
    pub generated_jobs: Option<GeneratedJobs>,
    /// Faults one by one.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// Faults from the seed.
    pub random_faults: Option<RandomFaults>,
    /// Edits of the configuration, drawn from the seed.
    pub random_edits: Option<RandomEdits>,
}

/// The machine of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MachineEntry {
    /// The profile with the times of the machine.
    pub profile: String,
    /// The load in addition to the jobs (section 4.2.2).
    #[serde(default)]
    pub load: Load,
    /// How finely its network is simulated.
    #[serde(default)]
    pub fidelity: Fidelity,
    /// Nodes that are configured.
    pub nodes: u32,
    /// Additional nodes, which edits of the configuration can add.
    #[serde(default)]
    pub spare_nodes: u32,
    /// Whether the ranks of a node outlive its node manager, and the next one takes them over.
    #[serde(default)]
    pub hand_over: bool,
    /// How long the ranks wait for the next node manager.
    #[serde(default, with = "super::written_time::optional")]
    pub node_return: Option<Duration>,
    /// Partitions, of about as many nodes each: `all`, or `p1`, `p2` and so on.
    #[serde(default = "one")]
    pub partitions: u32,
    /// Processing elements of each node; those of the profile if left out.
    pub pes: Option<u32>,
    /// The policy.
    #[serde(default = "default_policy")]
    pub sched: String,
    /// The quantum.
    #[serde(default = "default_quantum", with = "super::written_time")]
    pub quantum: Duration,
    /// Most rows of the matrix.
    #[serde(default = "default_mpl")]
    pub mpl: u32,
    /// The manager acts only at multiples of this time, as in the paper. Default: it acts at once.
    #[serde(default, with = "super::written_time::optional")]
    pub act_every: Option<Duration>,
    /// The time span whose slices one strobe orders. By default each slice has its own strobe, as
    /// in the paper.
    #[serde(default, with = "super::written_time")]
    pub strobe_span: Duration,
    /// The thresholds by which flexible coscheduling judges processes.
    #[serde(default)]
    pub flexible: FlexibleEntry,
    /// KiB of a chunk of a file.
    pub chunk_kib: Option<u32>,
    /// Check the invariants at every step.
    #[serde(default = "yes")]
    pub checks: bool,
}

/// A job of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobEntry {
    /// The name.
    pub name: String,
    /// When the job is submitted, counted from the time when the nodes have joined.
    #[serde(default, with = "super::written_time")]
    pub at: Duration,
    /// The number of jobs like this.
    #[serde(default = "one")]
    pub copies: u32,
    /// The ranks; all elements of the machine if left out.
    pub procs: Option<u32>,
    /// MiB of the job's program. 0 if the program is already on the nodes.
    #[serde(default)]
    pub binary_mib: f64,
    /// Run it again when its node dies.
    #[serde(default)]
    pub requeue: bool,
    /// The application of its ranks.
    pub application: Application,
}

/// Jobs drawn from the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GeneratedJobs {
    /// How many.
    pub count: u32,
    /// Mean time between two submissions.
    #[serde(with = "super::written_time")]
    pub mean_interarrival: Duration,
    /// Most ranks; all elements of the machine when left out.
    pub max_procs: Option<u32>,
    /// Longest computation.
    #[serde(with = "super::written_time")]
    pub max_work: Duration,
    /// MiB of the largest program.
    #[serde(default)]
    pub max_binary_mib: f64,
    /// PMI barriers that the ranks of each job pass before and after its application.
    #[serde(default)]
    pub fences: u32,
}

/// A job, and when it is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) at: Duration,
    pub(super) request: JobRequest,
}

fn an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn default_policy() -> String {
    storm_sched::DEFAULT_POLICY.to_owned()
}

fn default_quantum() -> Duration {
    storm_sched::DEFAULT_QUANTUM
}

fn one() -> u32 {
    1
}

fn default_mpl() -> u32 {
    profile::DEFAULT_MPL
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// [`ScenarioError`]: it cannot be read, understood, or run.
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = crate::bounded_file::read(path)
            .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        Scenario::parse(&text)
    }

    /// Reads a scenario from its text.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// [`ScenarioError`], with the reason.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_bounds()?;
        let config = self.config(self.seed)?;
        config.check()?;
        storm_mm_check(&config)?;
        if self.jobs.is_empty() && self.generated_jobs.is_none() {
            return Err(ScenarioError::NoJob);
        }
        let configuration = config.configuration();
        let partitions = configuration.partitions.iter();
        let elements = partitions.map(|one| configuration.elements(one)).min();
        let elements = elements.map_or(0, u64::from);
        let largest = self.generated_jobs.as_ref().and_then(|jobs| jobs.max_procs);
        let named = self.jobs.iter().filter_map(|job| Some((job.name.as_str(), job.procs?)));
        for (name, procs) in named.chain(largest.map(|procs| ("generated", procs))) {
            let name = name.to_owned();
            if procs == 0 {
                return Err(ScenarioError::EmptyJob { name });
            }
            if u64::from(procs) > elements {
                return Err(ScenarioError::JobTooLarge { name, procs, elements });
            }
        }
        self.jobs.iter().try_for_each(|job| job.check_pairs(elements))?;
        self.faults.iter().try_for_each(|fault| fault.check(config.nodes))?;
        self.random_faults.iter().try_for_each(RandomFaults::check)?;
        self.random_edits.iter().try_for_each(RandomEdits::check)
    }

    /// The machine under a seed.
    ///
    /// # Errors
    /// [`ScenarioError`]: there is no such profile, or it cannot make this machine.
    pub fn config(&self, seed: u64) -> Result<MachineConfig, ScenarioError> {
        let entry = &self.machine;
        if entry.nodes == 0 {
            return Err(crate::MachineError::Nodes { nodes: 0 }.into());
        }
        let MachineEntry { profile, nodes, load, fidelity, .. } = entry;
        // The network also reaches the nodes that are not configured.
        let all = nodes.saturating_add(entry.spare_nodes);
        let base = profile::machine_simulated(profile, seed, all, *load, *fidelity)?;
        Ok(MachineConfig {
            nodes: *nodes,
            spare_nodes: entry.spare_nodes,
            hand_over: entry.hand_over,
            node_return: entry.node_return.unwrap_or(base.node_return),
            partitions: entry.partitions,
            pes: entry.pes.unwrap_or(base.pes),
            sched: entry.sched.clone(),
            quantum: entry.quantum,
            mpl: entry.mpl,
            act_every: entry.act_every,
            strobe_span: entry.strobe_span,
            class_rules: entry.flexible.rules(),
            chunk_bytes: entry.chunk_kib.map_or(base.chunk_bytes, |kib| kib.saturating_mul(1024)),
            checks: entry.checks,
            ..base
        })
    }

    /// Whether anything is to go wrong.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty() || self.random_faults.is_some() || self.random_edits.is_some()
    }

    /// All jobs in order of their submission. `random` returns a number below its argument.
    pub(super) fn arrivals(&self, elements: u32, random: impl Fn(u64) -> u64) -> Vec<Arrival> {
        let mut arrivals: Vec<Arrival> = Vec::new();
        for job in &self.jobs {
            let request = JobRequest {
                name: job.name.clone(),
                procs: job.procs.unwrap_or(elements),
                binary_bytes: mib(job.binary_mib),
                application: job.application.clone(),
                requeue: job.requeue,
                fences: 0,
                partition: None,
            };
            let arrival = Arrival { at: job.at, request };
            arrivals.extend(std::iter::repeat_n(arrival, job.copies as usize));
        }
        if let Some(generated) = &self.generated_jobs {
            arrivals.extend(generated.draw(elements, random));
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }
}

impl JobEntry {
    /// A rank without a partner would do nothing, and no result would show it.
    fn check_pairs(&self, elements: u64) -> Result<(), ScenarioError> {
        let procs = self.procs.map_or(elements, u64::from);
        match self.application {
            Application::PingPong { .. } if !procs.is_multiple_of(2) => {
                Err(ScenarioError::OddPingPong { name: self.name.clone(), procs })
            }
            Application::PingPong { .. }
            | Application::Compute { .. }
            | Application::Independent { .. }
            | Application::Wavefront { .. }
            | Application::BulkSynchronous { .. } => Ok(()),
        }
    }
}

impl GeneratedJobs {
    fn draw(&self, elements: u32, random: impl Fn(u64) -> u64) -> Vec<Arrival> {
        let upto = |longest: Duration| Duration::from_nanos(random(longest.as_nanos() as u64 + 1));
        let most = self.max_procs.unwrap_or(elements);
        let mut at = Duration::ZERO;
        let mut arrivals = Vec::new();
        for number in 0..self.count {
            at += upto(self.mean_interarrival * 2);
            let procs = 1 + random(u64::from(most)) as u32;
            let binary_bytes = random(mib(self.max_binary_mib) + 1);
            let application = self.application(random(4), upto(self.max_work));
            let apart = matches!(application, Application::Independent { .. });
            let request = JobRequest {
                name: format!("job-{number}"),
                procs,
                binary_bytes,
                application,
                requeue: random(2) == 0,
                // All ranks would wait for the last one.
                fences: if apart { 0 } else { self.fences },
                partition: None,
            };
            arrivals.push(Arrival { at, request });
        }
        arrivals
    }

    /// An application of this kind, of about this much work.
    fn application(&self, kind: u64, work: Duration) -> Application {
        const ITERATIONS: u32 = 5;
        const HETEROGENEITY_PERCENT: u32 = 300;
        match kind {
            0 => Application::Independent {
                time: work,
                heterogeneity_percent: HETEROGENEITY_PERCENT,
            },
            1 => Application::bulk_synchronous(ITERATIONS, work / ITERATIONS),
            2 => Application::PingPong { iterations: ITERATIONS, message_bytes: 64 },
            _ => Application::Wavefront {
                iterations: 1,
                blocks: ITERATIONS,
                block_time: work / (2 * ITERATIONS),
                message_bytes: 1024,
            },
        }
    }
}

fn mib(count: f64) -> u64 {
    // The cast limits negative and too large lengths.
    (count * MIB as f64) as u64
}

/// Checks that the policy exists and accepts the partition.
fn storm_mm_check(config: &MachineConfig) -> Result<(), ScenarioError> {
    storm_mm::Core::new(config.core(&config.configuration()), [], storm_primitives::Instant::ORIGIN)
        .map(|_| ())
        .map_err(|error| ScenarioError::Machine(error.into()))
}
