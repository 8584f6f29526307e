//! The variables that STORM adds to the environment of a rank.

use crate::JobTask;
use crate::script_environment::{
    LOCAL_LAUNCHERS, SCRIPTS_OWN, program_rank_variables, script_variables,
};
use crate::step_environment::{STEPS_OWN, place_variable, step_variables};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::Path;
use storm_mpi::Thresholds;
use storm_mpi::defaults::{self, Defaults};
use storm_mpi::segment::{TRANSPORT_BCS, TRANSPORT_VARIABLE};
use storm_primitives::NodeId;
use storm_rm::{
    ArrayExtent, Coscheduling, FirstStep, JobSpec, MPI_SPACE_VARIABLE, Memory, Rank, Resources,
    StepId,
};

/// A node as its ranks are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNames {
    /// The id: `STORM_NODE_ID`.
    pub node: NodeId,
    /// The name: `%n` in output files.
    pub name: String,
    /// The address by which ranks of other nodes reach it.
    pub address: String,
    /// All processing elements of the node.
    pub pes: u32,
    /// Whether scripts find Slurm's commands, `srun` among them.
    pub has_commands: bool,
}

/// Selects how our own message-passing library waits.
const WAIT_VARIABLE: &str = "STORM_MPI_WAIT";

/// In a job's environment: how its ranks join it, if not by PMI-1. Ranks do not get it, as it would
/// also apply to jobs that they submit.
pub const MPI_TYPE_VARIABLE: &str = "STORM_MPI_TYPE";
/// Its value for ranks that join through PMIx.
pub const MPI_TYPE_PMIX: &str = "pmix";

/// Most bytes of the value of [`MPI_SPACE_VARIABLE`] that count.
const SPACE_MAX_BYTES: usize = 32;

/// A part of the name of a job's key-value space, if its manager set one. MPI libraries use the
/// space's name for files in shared memory, and other clusters have jobs of the same number.
pub(crate) fn space_of(spec: &JobSpec) -> Option<&str> {
    let said = spec.step.env.iter().find(|(name, _)| name.as_os_str() == MPI_SPACE_VARIABLE);
    let space = said?.1.as_os_str().to_str()?;
    let fits = (1..=SPACE_MAX_BYTES).contains(&space.len())
        && space.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then_some(space)
}

/// Whether the ranks of a job join it through PMIx.
pub(crate) fn joins_by_pmix(spec: &JobSpec) -> bool {
    spec.step.env.iter().any(|(name, value)| {
        name.as_os_str() == MPI_TYPE_VARIABLE && value.as_os_str() == MPI_TYPE_PMIX
    })
}

/// The value of [`TRANSPORT_VARIABLE`] for ranks that move their own bytes.
const TRANSPORT_DIRECT: &str = "direct";

/// The variables that name a job's own cluster. These variables hold the manager's socket and the
/// host of that socket. For a manager on another host, the variables hold its address and the file
/// of the user's key.
pub const CLUSTER_VARIABLES: [&str; 4] =
    [SOCKET_VARIABLE, "STORM_SOCKET_HOST", "STORM_MANAGER", "STORM_CLIENT_KEY"];
const SOCKET_VARIABLE: &str = "STORM_SOCKET";
/// In a job's environment: the client, not the user, has set the [`CLUSTER_VARIABLES`], so a node
/// may name a nearer way to the same cluster. Ranks do not get it.
pub const CLUSTER_GIVEN_VARIABLE: &str = "STORM_CLUSTER_GIVEN";

/// In a batch job's environment: its user asked for no number of processes. Slurm then sets no
/// `SLURM_NTASKS`, and scripts take another number for it. The script does not get the variable.
pub const NTASKS_UNASKED_VARIABLE: &str = "STORM_NTASKS_UNASKED";
/// The variables that such a script lacks.
const OF_ASKED_TASKS: [&str; 2] = ["SLURM_NTASKS", "SLURM_NPROCS"];

/// Variables that only Node Managers set. In a job's environment they are from another job that
/// submitted this job, and do not apply. `STORM_MPI_REMOTE_US` is not listed, as users may set it.
const NODES_OWN: [&str; 9] = [
    TRANSPORT_VARIABLE,
    storm_mpi::page::VARIABLE,
    "STORM_MPI_LOCAL_US",
    "STORM_MPI_WAKE_US",
    storm_mpi::RDMA_DEVICE_VARIABLE,
    MPI_TYPE_VARIABLE,
    MPI_SPACE_VARIABLE,
    CLUSTER_GIVEN_VARIABLE,
    NTASKS_UNASKED_VARIABLE,
];

/// The job's environment without variables that the submitter may not set.
pub(crate) fn submitted_environment(
    spec: &JobSpec,
) -> impl Iterator<Item = (&OsStr, &OsStr)> + Clone {
    let all = spec.step.env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    all.filter(|(name, _)| !NODES_OWN.iter().any(|own| name == own))
}

/// The environment that ranks of the job share on a node whose `relay` is the socket to the
/// manager. The relay replaces the variables that the client gave, not those that the user chose.
pub(crate) fn environment_of_job<'a>(
    spec: &'a JobSpec,
    relay: Option<&'a Path>,
) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> + Clone {
    let is_given = spec.step.env.iter().any(|(name, _)| name.as_os_str() == CLUSTER_GIVEN_VARIABLE);
    let relay = relay.filter(|_| is_given);
    let is_of_cluster = |name: &OsStr| CLUSTER_VARIABLES.iter().any(|known| name == *known);
    submitted_environment(spec)
        .filter(move |(name, _)| relay.is_none() || !is_of_cluster(name))
        .chain(relay.map(|socket| (OsStr::new(SOCKET_VARIABLE), socket.as_os_str())))
}

/// Variables that describe a rank. These variables are always set anew: a submitter's variables of
/// these names describe the submitting job.
const RANKS_OWN: [&str; 27] = [
    "STORM_JOB_ID",
    "STORM_RANK",
    "STORM_SIZE",
    "STORM_LOCAL_RANK",
    "STORM_LOCAL_SIZE",
    "STORM_NODE_ID",
    "STORM_NODELIST",
    "STORM_NODE_ADDR",
    "STORM_JOB_DIR",
    "STORM_CPUS_PER_TASK",
    "STORM_NTASKS_PER_NODE",
    "STORM_MEM_PER_NODE",
    "STORM_MEM_PER_CPU",
    "STORM_ARRAY_JOB_ID",
    "STORM_ARRAY_TASK_ID",
    "STORM_ARRAY_TASK_COUNT",
    "STORM_ARRAY_TASK_MIN",
    "STORM_ARRAY_TASK_MAX",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    TRANSPORT_VARIABLE,
    storm_mpi::page::VARIABLE,
    storm_mpi::RDMA_DEVICE_VARIABLE,
    defaults::VARIABLE,
];

/// This process's environment for a job that it submits. A rank's environment is returned without
/// the variables that STORM has set to describe it. Variables that the user has set stay, with any
/// name.
pub fn environment_to_submit(
    own: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    without(own, |name| {
        let mut all = RANKS_OWN.iter().chain(&SCRIPTS_OWN).chain(&STEPS_OWN);
        all.any(|known| name == *known)
    })
}

/// This process's environment for a step that it starts in its job's place. The variables of the
/// place stay. Those of the rank go, since the nodes set them anew for the ranks of the step.
pub fn environment_of_step(
    own: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    without(own, |name| RANKS_OWN.iter().chain(&STEPS_OWN).any(|known| name == *known))
}

/// An environment without the variables that `is_own` names, nor those that a node has set because
/// the user had not. The environment of a process that is no rank stays whole.
fn without(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    is_own: impl Fn(&OsStr) -> bool,
) -> Vec<(OsString, OsString)> {
    let mut own: Vec<(OsString, OsString)> = own.into_iter().collect();
    let value_of = |wanted: &str| own.iter().find(|(name, _)| name == wanted).map(|(_, to)| to);
    if value_of("STORM_JOB_ID").is_none() {
        return own;
    }
    let given = value_of(defaults::VARIABLE).map(|text| Defaults::parse(text)).unwrap_or_default();
    own.retain(|(name, value)| !is_own(name) && !given.contain(name, value));
    own
}

/// With this variable, Open MPI 4 fails in MPI_Init if it finds no PMIx server. Without the
/// variable, each rank takes itself for the whole job. `mpirun` and its ranks ignore it.
const NO_SINGLETONS: (&str, &str) = ("OMPI_MCA_schizo", "^orte");

/// Without this setting, `mpirun` of Open MPI 5 in a rank looks for the nodes of Slurm's job in
/// variables of which a rank has only some.
const NO_ALLOCATION: [(&str, &str); 1] = [("PRTE_MCA_ras", "^slurm")];

/// Variables that make an MPI library yield its core while it waits, if it has such a switch: Open
/// MPI, Intel MPI, MPICH from release 4.2 on.
const YIELD_SWITCHES: [(&str, &str); 3] = [
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("I_MPI_WAIT_MODE", "1"),
    ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
];

/// Where ranks of Open MPI 4 have their shared memory. Its names have the host and the number of
/// the rank on its node, so ranks of two nodes on one host would write into the same memory.
const OMPI_SEGMENTS: &str = "OMPI_MCA_btl_vader_backing_directory";

/// Whether several nodes of a step are on this host.
fn segments_apart(task: &JobTask, names: &NodeNames) -> bool {
    let is_step = matches!(task.launch.step.step, StepId::Number(_));
    is_step && ranks_on_host(task, names) > task.count
}

/// How ranks of our own message-passing library wait under implicit coscheduling: two-phase, with
/// the measured thresholds.
pub fn implicit_waiting(measured: &Thresholds) -> Vec<(&'static str, String)> {
    let mode = (WAIT_VARIABLE, "spin-block".to_owned());
    measured.variables().into_iter().chain([mode]).collect()
}

/// How these ranks wait under periodic boost: they poll until the message arrives.
pub fn boosted_waiting() -> Vec<(&'static str, String)> {
    vec![(WAIT_VARIABLE, "spin".to_owned())]
}

/// The variables of a rank, in addition to those of the job. These variables replace the
/// submitter's variables of the same names, except for how to wait.
///
/// Libraries are configured to yield if the ranks on the host exceed its `cores`, or if other jobs
/// run on them at the same time. Our own library gets `waiting`. The submitter's own settings for
/// waiting take precedence.
pub fn rank_environment(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
    job_directory: &OsStr,
    cores: usize,
    waiting: &[(&'static str, String)],
) -> Vec<(OsString, OsString)> {
    let launch = &task.launch;
    let number = |value: u64| OsString::from(value.to_string());
    let size = u64::from(launch.size());
    let rank_number = u64::from(rank.0);
    let local_rank = u64::from(rank.0.saturating_sub(task.first.0));
    let of_step = match launch.step.step {
        StepId::Number(_) => variables_of_pmi(task, rank),
        StepId::Batch => variables_of_script(task, names),
    };
    let variables = [
        ("STORM_JOB_ID", number(launch.step.job.0)),
        ("STORM_RANK", number(rank_number)),
        ("STORM_SIZE", number(size)),
        ("STORM_LOCAL_RANK", number(local_rank)),
        ("STORM_LOCAL_SIZE", number(u64::from(task.count))),
        ("STORM_NODE_ID", number(u64::from(names.node.0))),
        ("STORM_NODELIST", OsString::from(&launch.node_list)),
        ("STORM_NODE_ADDR", OsString::from(&names.address)),
        ("STORM_JOB_DIR", job_directory.to_owned()),
    ];
    let resources = resource_variables(&launch.spec.resources);
    let shares = launch.coscheduling != Coscheduling::Strobed;
    let crowded = shares || ranks_on_host(task, names) as usize > cores;
    let yields = YIELD_SWITCHES.into_iter().filter(|_| crowded);
    let alone = (size > 1).then_some(NO_SINGLETONS);
    let is_program = launch.spec.first == FirstStep::Program;
    let reaches_nodes = names.has_commands && launch.step.step == StepId::Batch;
    let yields = yields
        .chain(alone)
        .chain(LOCAL_LAUNCHERS.into_iter().filter(|_| !reaches_nodes))
        .chain(NO_ALLOCATION.into_iter().filter(|_| is_program))
        .map(|(name, value)| (name, OsString::from(value)))
        .chain(segments_apart(task, names).then(|| (OMPI_SEGMENTS, job_directory.to_owned())));
    let transport = if launch.buffered { TRANSPORT_BCS } else { TRANSPORT_DIRECT };
    let transport = (TRANSPORT_VARIABLE, OsString::from(transport));
    let waiting = waiting.iter().map(|(name, value)| (*name, OsString::from(value)));
    let said = submitted_environment(&launch.spec);
    let unsaid = |name: &str| !said.clone().any(|(known, _)| known == name);
    let unsaid: Vec<_> = yields.chain(waiting).filter(|(name, _)| unsaid(name)).collect();
    let mut given = Defaults::default();
    for (name, value) in &unsaid {
        given.add(name.as_ref(), value);
    }
    let all = variables
        .into_iter()
        .chain(of_step)
        .chain(place_variable(task))
        .chain(program_rank_variables(task, rank))
        .chain(step_variables(task, rank, names))
        .chain([transport])
        .chain(resources)
        .chain(array_variables(task))
        .chain([(defaults::VARIABLE, given.encode())])
        .chain(unsaid);
    all.map(|(name, value)| (OsString::from(name), value)).collect()
}

/// The variables by which a rank joins its MPI job.
fn variables_of_pmi(task: &JobTask, rank: Rank) -> Vec<(&'static str, OsString)> {
    let number = |value: u32| OsString::from(value.to_string());
    vec![
        ("PMI_RANK", number(rank.0)),
        ("PMI_SIZE", number(task.launch.size())),
        // Hydra's names, which MPICH and Intel MPI read.
        ("MPI_LOCALRANKID", number(rank.0.saturating_sub(task.first.0))),
        ("MPI_LOCALNRANKS", number(task.count)),
    ]
}

fn variables_of_script(task: &JobTask, names: &NodeNames) -> Vec<(&'static str, OsString)> {
    let mut all = script_variables(task, names);
    let mut env = task.spec().step.env.iter();
    if env.any(|(name, _)| name.as_os_str() == NTASKS_UNASKED_VARIABLE) {
        all.retain(|(name, _)| !OF_ASKED_TASKS.contains(name));
    }
    all
}

/// The variables of a job of an array.
fn array_variables(task: &JobTask) -> Vec<(&'static str, OsString)> {
    let (Some(own), Some(array)) = (task.launch.task, &task.spec().needs.array) else {
        return Vec::new();
    };
    let own_alone = ArrayExtent { count: 0, least: own.index, greatest: own.index };
    let extent = array.extent().unwrap_or(own_alone);
    let number = |value: u64| OsString::from(value.to_string());
    vec![
        ("STORM_ARRAY_JOB_ID", number(own.array.0)),
        ("STORM_ARRAY_TASK_ID", number(u64::from(own.index))),
        ("STORM_ARRAY_TASK_COUNT", number(extent.count)),
        ("STORM_ARRAY_TASK_MIN", number(u64::from(extent.least))),
        ("STORM_ARRAY_TASK_MAX", number(u64::from(extent.greatest))),
    ]
}

/// The resources that the job requested, in the units of Slurm's variables of these names: memory
/// in MiB, rounded up.
fn resource_variables(asked: &Resources) -> impl Iterator<Item = (&'static str, OsString)> {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (per_node, per_cpu) = match asked.memory {
        Memory::Unstated | Memory::WholeNode => (None, None),
        Memory::PerNode(bytes) => (Some(mib(bytes)), None),
        Memory::PerCpu(bytes) => (None, Some(mib(bytes))),
    };
    let variables = [
        ("STORM_CPUS_PER_TASK", Some(u64::from(asked.cpus_per_task))),
        ("STORM_NTASKS_PER_NODE", asked.tasks_per_node.map(u64::from)),
        ("STORM_MEM_PER_NODE", per_node),
        ("STORM_MEM_PER_CPU", per_cpu),
    ];
    let given = |(name, value): (&'static str, Option<u64>)| {
        value.map(|value| (name, OsString::from(value.to_string())))
    };
    variables.into_iter().filter_map(given)
}

/// Number of the job's ranks that share the cores of this host. Nodes with loopback addresses are
/// all on it.
pub(crate) fn ranks_on_host(task: &JobTask, names: &NodeNames) -> u32 {
    match names.address.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => task.launch.size(),
        Ok(_) | Err(_) => task.count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::Program;

    fn shared(variables: &[(&str, &str)], relay: Option<&str>) -> Vec<(String, String)> {
        let env = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut spec = JobSpec::plain("true", Program::OnNodes("/bin/true".into()));
        spec.step.env = env;
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let relay = relay.map(Path::new);
        environment_of_job(&spec, relay).map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn a_step_has_the_variables_of_its_place_and_not_those_of_the_rank_that_starts_it() {
        let own = [
            ("STORM_JOB_ID", "7"),
            ("STORM_RANK", "0"),
            ("PMI_FD", "3"),
            ("STORM_PLACE", "7:1"),
            ("SLURM_STEP_ID", "3"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("STORM_NTASKS", "4"),
            ("HOME", "/h"),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let step = environment_of_step(own.clone());
        assert_eq!(step, own[5..], "the place's and the user's");
        assert_eq!(environment_to_submit(own.clone()), own[7..], "the user's alone");
        assert_eq!(environment_of_step(own[1..].to_vec()), own[1..], "this process is no rank");
    }

    #[test]
    fn a_relay_replaces_the_way_to_the_cluster_that_the_client_gave() {
        let given = [
            ("HOME", "/h"),
            ("STORM_SOCKET", "/m"),
            ("STORM_SOCKET_HOST", "b head /m"),
            ("STORM_MANAGER", "head:1"),
            ("STORM_CLIENT_KEY", "/k"),
            (CLUSTER_GIVEN_VARIABLE, "1"),
        ];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (home, own) = (pair("HOME", "/h"), pair("STORM_SOCKET", "/own"));
        assert_eq!(shared(&given, Some("/own")), [home.clone(), own]);
        let kept = shared(&given, None);
        assert_eq!(kept.len(), 5, "all but the mark: {kept:?}");
        let chosen = shared(&given[..5], Some("/own"));
        assert_eq!(chosen, kept, "the user's own choice stays");
    }
}
