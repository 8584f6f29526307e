//! The cost of a cluster's processes: their memory, processor time and context switches, as the
//! kernel counts them.
//!
//! A process belongs to the cluster whose runtime directory is in its environment. Times of ended
//! processes are not included, except in the floor.

use crate::spread::Spread;
use anyhow::{Context, Result};
use procfs::process::{Process, Status, all_processes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The role of a process in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The Machine Manager.
    MachineManager,
    /// A Node Manager.
    NodeManager,
    /// The keeper and the program launchers, which hold a Node Manager's processes.
    Launchers,
}

/// The resident memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// All resident memory, KiB (`VmRSS`).
    pub rss_kib: u64,
    /// Memory without a file behind it, KiB (`RssAnon`).
    pub anon_kib: u64,
}

impl Resident {
    /// The memory of a running process.
    ///
    /// # Errors
    /// The process does not exist, or has ended.
    pub fn of(pid: i32) -> Result<Resident> {
        let status = Process::new(pid).and_then(|process| process.status());
        let status = status.with_context(|| format!("process {pid}"))?;
        Ok(Resident::from_status(&status))
    }

    fn from_status(status: &Status) -> Resident {
        let Status { vmrss, rssanon, .. } = status;
        Resident { rss_kib: vmrss.unwrap_or(0), anon_kib: rssanon.unwrap_or(0) }
    }
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Daemon {
    /// The number.
    pub pid: i32,
    /// The role.
    pub role: Role,
    /// The memory.
    pub resident: Resident,
    /// Processor time of its threads, milliseconds.
    pub cpu_ms: f64,
    /// How many times one of its threads gave up or lost its processor.
    pub switches: u64,
}

/// The cost of one role between two readings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Processor time, milliseconds.
    pub cpu_ms: f64,
    /// Context switches.
    pub switches: u64,
}

/// The cost of one launch by role: the medians of several.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs(BTreeMap<Role, Cost>);

impl Costs {
    /// The medians of several measurements.
    pub fn median(runs: &[BTreeMap<Role, Cost>]) -> Costs {
        let roles: BTreeSet<Role> = runs.iter().flat_map(BTreeMap::keys).copied().collect();
        let cost = |role: Role| {
            let of = |value: fn(&Cost) -> f64| {
                Spread::of(runs.iter().filter_map(|run| run.get(&role)).map(value)).median
            };
            let switches = of(|cost| cost.switches as f64) as u64;
            (role, Cost { cpu_ms: of(|cost| cost.cpu_ms), switches })
        };
        Costs(roles.into_iter().map(cost).collect())
    }

    /// Processor time of all roles, milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        self.0.values().map(|cost| cost.cpu_ms).sum()
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut roles = self.0.iter().peekable();
        while let Some((role, cost)) = roles.next() {
            write!(f, "{role} {:.0} ms in {} switches", cost.cpu_ms, cost.switches)?;
            if roles.peek().is_some() {
                f.write_str(", ")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MachineManager => "Machine Manager",
            Self::NodeManager => "Node Managers",
            Self::Launchers => "launchers",
        })
    }
}

/// The processes of the cluster in this runtime directory.
///
/// # Errors
/// The kernel does not list the processes.
pub fn of_cluster(runtime_dir: &Path) -> Result<Vec<Daemon>> {
    let processes = all_processes().context("cannot list the processes")?;
    let ours = processes.flatten().filter(|process| belongs(process, runtime_dir));
    // Skip processes that end while they are read.
    Ok(ours.filter_map(|process| daemon(&process).ok().flatten()).collect())
}

/// The cost of each role from `before` to `after`.
pub fn costs(before: &[Daemon], after: &[Daemon]) -> BTreeMap<Role, Cost> {
    let mut costs: BTreeMap<Role, Cost> = BTreeMap::new();
    for now in after {
        let then = before.iter().find(|then| then.pid == now.pid);
        let cost = costs.entry(now.role).or_default();
        cost.cpu_ms += now.cpu_ms - then.map_or(0.0, |then| then.cpu_ms);
        cost.switches += now.switches.saturating_sub(then.map_or(0, |then| then.switches));
    }
    costs
}

fn belongs(process: &Process, runtime_dir: &Path) -> bool {
    let Ok(environment) = process.environ() else { return false };
    environment.get(OsStr::from_bytes(b"XDG_RUNTIME_DIR")).is_some_and(|dir| dir == runtime_dir)
}

fn daemon(process: &Process) -> procfs::ProcResult<Option<Daemon>> {
    let line = process.cmdline()?;
    let verb = line.get(1).map(String::as_str);
    let role = match (line.first(), verb) {
        (Some(program), Some("mm")) if program.ends_with("storm") => Role::MachineManager,
        (Some(program), Some("nm")) if program.ends_with("storm") => node_role(process)?,
        (Some(program), _) if program.ends_with("storm") => return Ok(None),
        _ => Role::Launchers,
    };
    let status = process.status()?;
    let (mut cpu_ms, mut switches) = (0.0, 0);
    for task in process.tasks()?.flatten() {
        cpu_ms += task.schedstat()?.sum_exec_runtime as f64 / 1e6;
        let status = task.status()?;
        let counted = [status.voluntary_ctxt_switches, status.nonvoluntary_ctxt_switches];
        switches += counted.into_iter().flatten().sum::<u64>();
    }
    Ok(Some(Daemon {
        pid: process.pid,
        role,
        resident: Resident::from_status(&status),
        cpu_ms,
        switches,
    }))
}

/// A Node Manager's keeper and launchers are forked from it and have its command line. They are
/// recognised by their parent, which has it too.
fn node_role(process: &Process) -> procfs::ProcResult<Role> {
    let parent = Process::new(process.stat()?.ppid).and_then(|parent| parent.cmdline());
    let forked = parent.is_ok_and(|line| line.get(1).is_some_and(|verb| verb == "nm"));
    Ok(if forked { Role::Launchers } else { Role::NodeManager })
}
