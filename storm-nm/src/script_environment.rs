//! Slurm's variables, which people's scripts and workflow tools use, and those that describe the
//! place of a batch script under STORM's names.
//!
//! A script has no variables of PMI, since it is no rank of an MPI program. With such variables,
//! programs that it starts would take themselves for its rank.

use crate::JobTask;
use crate::environment::NodeNames;
use crate::step_environment::shared_step_variables;
use std::ffi::OsString;
use storm_rm::message::NodeRanks;
use storm_rm::{ArrayExtent, FirstStep, LaunchFacts, Memory, Rank};

/// The variables of this module. A job that the script submits does not get them.
pub(crate) const SCRIPTS_OWN: [&str; 48] = [
    "STORM_NNODES",
    "STORM_NTASKS",
    "STORM_TASKS_PER_NODE",
    "STORM_CPUS_ON_NODE",
    "STORM_SUBMIT_DIR",
    "STORM_SUBMIT_HOST",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_TASKS_PER_NODE",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_JOB_UID",
    "SLURM_JOB_GID",
    "SLURM_JOB_USER",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_QOS",
    "SLURM_RESTART_COUNT",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURMD_NODENAME",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "HYDRA_BOOTSTRAP",
    "HYDRA_RMK",
    "OMPI_MCA_plm",
    "OMPI_MCA_ras",
    "PRTE_MCA_plm",
];

/// Without these settings, launchers of MPI see Slurm's variables and call `srun` to reach the
/// nodes. With them, `mpirun` starts its processes on its own node. Scripts that find our `srun`
/// lack them: there the launchers' daemons are steps.
pub(crate) const LOCAL_LAUNCHERS: [(&str, &str); 5] = [
    ("HYDRA_BOOTSTRAP", "fork"),
    ("HYDRA_RMK", "user"),
    ("OMPI_MCA_plm", "^slurm"),
    ("OMPI_MCA_ras", "^slurm"),
    ("PRTE_MCA_plm", "^slurm"),
];

/// The variables of the script of a job on its node.
pub(crate) fn script_variables(task: &JobTask, names: &NodeNames) -> Vec<(&'static str, OsString)> {
    let number = |value: u64| OsString::from(value.to_string());
    let launch = &task.launch;
    let mut all = place_variables(task, names);
    all.extend([
        ("STORM_NNODES", number(launch.ranks.iter().count() as u64)),
        ("STORM_NTASKS", number(task.spec().procs.into())),
        ("STORM_TASKS_PER_NODE", per_node(launch.ranks.iter(), 1).into()),
        ("STORM_CPUS_ON_NODE", number(elements_here(task, names))),
        ("SLURM_NODELIST", OsString::from(&launch.node_list)),
        ("SLURM_PROCID", number(0)),
        ("SLURM_LOCALID", number(0)),
        ("SLURM_NODEID", number(0)),
        ("SLURM_GTIDS", number(0)),
    ]);
    all
}

/// The variables that every rank of a program has on a node; those of
/// [`program_rank_variables`] differ from rank to rank.
///
/// `SLURM_NODELIST` is not among them. With it and without `SLURM_STEP_ID`, Open MPI 4 takes each
/// rank for a program of its own.
pub(crate) fn program_variables(
    task: &JobTask,
    names: &NodeNames,
) -> Vec<(&'static str, OsString)> {
    let mut all = place_variables(task, names);
    all.extend(shared_step_variables(task, names));
    all
}

/// The variables of a rank of a program.
pub(crate) fn program_rank_variables(
    task: &JobTask,
    rank: Rank,
) -> impl Iterator<Item = (&'static str, OsString)> + use<> {
    let is_program = task.spec().first == FirstStep::Program;
    let local = rank.0.saturating_sub(task.first.0);
    let variables = [("SLURM_PROCID", rank.0), ("SLURM_LOCALID", local)];
    let shown = |(name, value): (&'static str, u32)| (name, OsString::from(value.to_string()));
    variables.into_iter().filter(move |_| is_program).map(shown)
}

/// The processing elements of the job on this node. An exclusive job has all of them, since no
/// other job is there.
fn elements_here(task: &JobTask, names: &NodeNames) -> u64 {
    let asked = &task.spec().resources;
    match asked.exclusive {
        true => u64::from(names.pes),
        false => u64::from(task.room()) * u64::from(asked.cpus_per_task),
    }
}

/// The variables of a job and its nodes, for scripts and for programs.
fn place_variables(task: &JobTask, names: &NodeNames) -> Vec<(&'static str, OsString)> {
    let (launch, spec) = (&task.launch, task.spec());
    let each = spec.resources.cpus_per_task;
    let number = |value: u64| OsString::from(value.to_string());
    let (job, tasks) = (number(launch.step.job.0), number(spec.procs.into()));
    let nodes = number(launch.ranks.iter().count() as u64);
    let per_node = |each: u32| OsString::from(per_node(launch.ranks.iter(), each));
    let here = elements_here(task, names);
    let alone_on_one = spec.resources.exclusive && launch.ranks.iter().count() == 1;
    let elements = if alone_on_one { number(here) } else { per_node(each) };
    let mut all = vec![
        ("SLURM_JOB_ID", job.clone()),
        ("SLURM_JOBID", job),
        ("SLURM_JOB_NAME", OsString::from(&spec.name)),
        ("SLURM_JOB_NODELIST", OsString::from(&launch.node_list)),
        ("SLURM_JOB_NUM_NODES", nodes.clone()),
        ("SLURM_NNODES", nodes),
        ("SLURM_NTASKS", tasks.clone()),
        ("SLURM_NPROCS", tasks),
        ("SLURM_TASKS_PER_NODE", per_node(1)),
        ("SLURM_JOB_CPUS_PER_NODE", elements),
        ("SLURM_CPUS_ON_NODE", number(here)),
        ("SLURM_JOB_UID", number(spec.owner.uid.into())),
        ("SLURM_JOB_GID", number(spec.owner.gid.into())),
        ("SLURMD_NODENAME", OsString::from(&names.name)),
    ];
    all.extend(of_manager(task));
    all.extend(asked(task));
    all.extend(of_array(task));
    all
}

/// The values that the user requested, if any. Memory is in MiB, rounded up.
fn asked(task: &JobTask) -> impl Iterator<Item = (&'static str, OsString)> {
    let asked = &task.spec().resources;
    let mib = |bytes: u64| OsString::from(bytes.div_ceil(1 << 20).to_string());
    let number = |value: u32| OsString::from(value.to_string());
    let (per_node, per_cpu) = match asked.memory {
        Memory::Unstated | Memory::WholeNode => (None, None),
        Memory::PerNode(bytes) => (Some(mib(bytes)), None),
        Memory::PerCpu(bytes) => (None, Some(mib(bytes))),
    };
    let each = Some(asked.cpus_per_task).filter(|each| *each > 1);
    let variables = [
        ("SLURM_NTASKS_PER_NODE", asked.tasks_per_node.map(number)),
        ("SLURM_CPUS_PER_TASK", each.map(number)),
        ("SLURM_MEM_PER_NODE", per_node),
        ("SLURM_MEM_PER_CPU", per_cpu),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The facts that the manager told. As in Slurm, only a job that is started again has a count.
fn of_manager(task: &JobTask) -> impl Iterator<Item = (&'static str, OsString)> {
    let LaunchFacts { cluster, partition, account, qos, restarts } = &task.launch.facts;
    let restarts = Some(*restarts).filter(|restarts| *restarts > 0);
    let variables = [
        ("SLURM_CLUSTER_NAME", Some(OsString::from(cluster))),
        ("SLURM_JOB_PARTITION", Some(OsString::from(partition))),
        ("SLURM_JOB_ACCOUNT", account.as_ref().map(OsString::from)),
        ("SLURM_JOB_QOS", qos.as_ref().map(OsString::from)),
        ("SLURM_RESTART_COUNT", restarts.map(|restarts| restarts.to_string().into())),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The variables of a job of an array.
fn of_array(task: &JobTask) -> Vec<(&'static str, OsString)> {
    let (Some(own), Some(array)) = (task.launch.task, &task.spec().needs.array) else {
        return Vec::new();
    };
    let own_alone = ArrayExtent { count: 0, least: own.index, greatest: own.index };
    let extent = array.extent().unwrap_or(own_alone);
    let number = |value: u64| OsString::from(value.to_string());
    vec![
        ("SLURM_ARRAY_JOB_ID", number(own.array.0)),
        ("SLURM_ARRAY_TASK_ID", number(u64::from(own.index))),
        ("SLURM_ARRAY_TASK_COUNT", number(extent.count)),
        ("SLURM_ARRAY_TASK_MIN", number(u64::from(extent.least))),
        ("SLURM_ARRAY_TASK_MAX", number(u64::from(extent.greatest))),
        ("SLURM_ARRAY_TASK_STEP", number(u64::from(array.step()))),
    ]
}

/// A number for each node, in Slurm's form: `4(x2),3` stands for 4, 4 and 3. Each process counts
/// as `each`.
pub(crate) fn per_node(shares: impl Iterator<Item = NodeRanks>, each: u32) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for share in shares {
        let value = share.count.saturating_mul(each);
        match runs.last_mut() {
            Some((last, nodes)) if *last == value => *nodes += 1,
            _ => runs.push((value, 1)),
        }
    }
    let written = runs.into_iter().map(|(value, nodes)| match nodes {
        1 => value.to_string(),
        _ => format!("{value}(x{nodes})"),
    });
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_primitives::NodeId;

    #[test]
    fn numbers_of_nodes_are_written_as_by_slurm() {
        let of = |counts: &[u32], each| {
            let share = |(index, count): (usize, &u32)| NodeRanks {
                node: NodeId(index as u32 + 1),
                first: Rank(0),
                count: *count,
            };
            per_node(counts.iter().enumerate().map(share), each)
        };
        assert_eq!(of(&[4, 4, 3, 4], 1), "4(x2),3,4");
        assert_eq!(of(&[1], 8), "8");
        assert_eq!(of(&[], 1), "");
    }
}
