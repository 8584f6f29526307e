//! Submission: whether a job is admitted, and into which partition.

use super::Core;
use super::choosing::starts_at_once;
use super::ending::check_signal;
use crate::api::{ApiError, ErrorCode, Peer, Prospect, Service};
use crate::job::JobEventKind;
use std::collections::BTreeSet;
use std::rc::Rc;
use storm_primitives::{Instant, MAX_NODES, NodeNames};
use storm_rm::{
    Destination, FirstStep, InputSpec, JobId, JobSpec, LEAST_MEMORY_BYTES, MAX_RANKS, Memory,
    OsBytes, OutputSpec, Owner, PartitionId, Program, StepSpec,
};
use storm_sched::{Constraint, JobRequest, NodeChoice, NodeMemory, ReservationId};

/// Longest name or constraint of a job; a file's name has at most 255 bytes.
const MAX_TEXT_BYTES: usize = 1024;
/// The longest path of a job or step: PATH_MAX of Linux, beyond which no call takes it.
pub(super) const MAX_PATH_BYTES: usize = 4096;
/// The longest list of nodes that a job must have or must not have.
const MAX_NODE_LIST_BYTES: usize = 2048;

/// A job that passed the checks.
struct Admitted {
    /// The number that it gets.
    job: JobId,
    /// The number of its jobs, if it is an array.
    tasks: Option<u64>,
    service: Service,
    reservation: Option<(ReservationId, String)>,
    partition: PartitionId,
}

impl Core {
    /// Admits a job, or returns why the job can never run here.
    ///
    /// # Errors
    /// An [`ApiError`] for the client.
    pub fn submit(&mut self, now: Instant, peer: Peer, spec: JobSpec) -> Result<JobId, ApiError> {
        self.submit_to(now, peer, spec, Service::default(), None)
    }

    /// Admits a job with an account and a quality of service, and to a reservation if the job names
    /// a reservation. Otherwise returns why the job can never run here.
    ///
    /// # Errors
    /// An [`ApiError`] for the client.
    pub fn submit_to(
        &mut self,
        now: Instant,
        peer: Peer,
        mut spec: JobSpec,
        service: Service,
        reservation: Option<&str>,
    ) -> Result<JobId, ApiError> {
        let Admitted { job, tasks, service, reservation, partition } =
            self.admit(now, peer, &mut spec, service, reservation)?;
        let name = self.partitions[partition].name().to_owned();
        spec.step.env = self.jobs.shared_environment(&spec.step.env);
        self.jobs.check_held_bytes(&spec)?;
        // An array has a number of its own.
        self.jobs.take_ids(tasks);
        self.contents_sent(now, peer.uid, &spec);
        let (spec, service) = (Rc::new(spec), Rc::new(service));
        self.append(
            now,
            job,
            match tasks {
                None => JobEventKind::Submitted { spec, partition: name, service },
                Some(_) => JobEventKind::ArraySubmitted { spec, partition: name, service },
            },
        );
        self.together(now, |core| {
            for job in core.jobs.of(job) {
                if let Some((id, name)) = reservation.clone() {
                    core.append(now, job, JobEventKind::InReservation { id, name });
                }
                core.watch_dependencies(now, job);
                core.enter(now, job);
            }
        });
        Ok(job)
    }

    /// Tells when and where a job would start if it were submitted.
    ///
    /// # Errors
    /// The errors of a submission.
    pub fn try_out(
        &self,
        now: Instant,
        peer: Peer,
        mut spec: JobSpec,
        service: Service,
        reservation: Option<&str>,
    ) -> Result<Prospect, ApiError> {
        let admitted = self.admit(now, peer, &mut spec, service, reservation)?;
        self.jobs.check_held_bytes(&spec)?;
        let chosen = &self.partitions[admitted.partition];
        let needs = &spec.needs;
        let ready = !needs.hold && needs.dependency.is_none() && admitted.reservation.is_none();
        let request = request_of(admitted.job, &spec);
        let at = self.wall(now);
        let start = needs.begin.map_or(at, |begin| begin.max(at));
        Ok(Prospect {
            job: admitted.job,
            partition: chosen.name().to_owned(),
            start: (ready && starts_at_once(chosen, &request)).then_some(start),
        })
    }

    /// Checks a job, and completes its specification.
    fn admit(
        &self,
        now: Instant,
        peer: Peer,
        spec: &mut JobSpec,
        service: Service,
        reservation: Option<&str>,
    ) -> Result<Admitted, ApiError> {
        if self.jobs.is_closed() {
            return Err(ApiError::new(ErrorCode::ShuttingDown, "the cluster is going down"));
        }
        spec.owner = Owner { uid: peer.uid, gid: peer.gid };
        self.config.check_size(spec)?;
        check_texts(spec)?;
        check_constraint(spec)?;
        check_amounts(spec)?;
        check_early_signal(spec)?;
        self.resolve_nodes(spec)?;
        let tasks =
            spec.needs.array.as_ref().map(|array| self.config.array_size(array)).transpose()?;
        let service = self.served(peer, service, tasks.unwrap_or(1))?;
        let reservation =
            reservation.map(|name| self.reservation_to_use(now, peer, name, spec)).transpose()?;
        let partition = self.choose_partition(spec)?;
        self.choose_nodes(partition, spec);
        let job = self.jobs.next_id();
        let request = request_of(job, spec);
        let chosen = &self.partitions[partition];
        storm_sched::feasible(chosen.policy().machine(), &request).map_err(|why| {
            let message = format!("partition {:?} can never run this job", chosen.name());
            ApiError::new(ErrorCode::Infeasible, message).why(why.to_string())
        })?;
        check_ranks(spec)?;
        if let Some((id, _)) = &reservation {
            self.check_reservation(now, *id, &request)?;
        }
        self.check_dependency(&mut spec.needs)?;
        self.check_room(partition, spec.owner.uid, tasks.unwrap_or(1) as usize)?;
        Ok(Admitted { job, tasks, service, reservation, partition })
    }

    /// Fails if `jobs` further jobs of a user may not wait. The first limit counts the jobs that
    /// wait in the partition, and all jobs that wait for something other than elements. The second
    /// limit is the user's own.
    fn check_room(&self, partition: PartitionId, uid: u32, jobs: usize) -> Result<(), ApiError> {
        let chosen = &self.partitions[partition];
        let switching = chosen.queue_of_next().len();
        let waiting =
            chosen.policy().pending_count() + switching + self.jobs.needs().waiting().len();
        if waiting + jobs > storm_sched::MAX_PENDING_JOBS {
            let limit = storm_sched::MAX_PENDING_JOBS;
            return Err(ApiError::new(ErrorCode::QueueFull, format!("{limit} jobs are waiting"))
                .hint("wait for some to start"));
        }
        let (own, most) = (self.jobs.unfinished_of(uid), self.config.user_jobs_max);
        if own + jobs > most as usize {
            let message = format!("you have {own} unfinished jobs");
            return Err(ApiError::new(ErrorCode::QueueFull, message)
                .why(format!("one user may have at most {most} (user-jobs-max)"))
                .hint("wait for some to end, or cancel some"));
        }
        Ok(())
    }

    /// Has a job wait (again) for its partition's policy.
    pub(super) fn queue_again(&mut self, now: Instant, job: JobId) {
        self.notify_pending(job, None);
        self.enter(now, job);
    }

    /// Replaces the lists of nodes that a job names by folded lists of nodes that exist.
    fn resolve_nodes(&self, spec: &mut JobSpec) -> Result<(), ApiError> {
        let asked = &mut spec.resources;
        for list in [&mut asked.required_nodes, &mut asked.excluded_nodes].into_iter().flatten() {
            check_node_list(list)?;
            let nodes = self.nodes.of_list(list)?.into_iter().collect();
            *list = self.names_of_nodes(&nodes);
            // A short list, such as that of every second node, may be long when it is folded.
            check_node_list(list)?;
        }
        Ok(())
    }
}

/// Even on a machine with room for more, a job has at most as many ranks as a message can map.
fn check_ranks(spec: &JobSpec) -> Result<(), ApiError> {
    if spec.procs <= MAX_RANKS {
        return Ok(());
    }
    let why = format!("it asks for {} processes; {MAX_RANKS} are possible", spec.procs);
    Err(ApiError::new(ErrorCode::Infeasible, "the job has too many processes").why(why))
}

/// Listings repeat these texts for every job, so they must be short: a client may request a listing
/// and not read the reply.
pub(super) fn check_texts(spec: &JobSpec) -> Result<(), ApiError> {
    let texts = [
        ("name", Some(&spec.name)),
        ("constraint", spec.resources.constraint.as_ref()),
        ("comment", spec.remarks.comment.as_ref()),
        ("wckey", spec.remarks.wckey.as_ref()),
    ];
    let long = |(_, text): &(&str, Option<&String>)| text.is_some_and(|t| t.len() > MAX_TEXT_BYTES);
    match texts.into_iter().find(long) {
        Some((what, _)) => Err(ApiError::new(
            ErrorCode::TooLarge,
            format!("the job's {what} has more than {MAX_TEXT_BYTES} bytes"),
        )
        .hint("use a shorter one, and pass data in the job's arguments")),
        None => check_paths(&spec.step),
    }
}

/// Listings repeat paths, too, and a byte that is not UTF-8 takes four characters there.
pub(super) fn check_paths(step: &StepSpec) -> Result<(), ApiError> {
    let (output, error) = match &step.output {
        OutputSpec::Client => (None, None),
        OutputSpec::Files { stdout, stderr } => (Some(stdout), stderr.as_ref()),
    };
    let input = match &step.input {
        InputSpec::File(path) => Some(path),
        InputSpec::None | InputSpec::RankZero | InputSpec::All => None,
    };
    let (program, destination) = match &step.program {
        Program::OnNodes(path) => (path, None),
        Program::Shipped(file) => match &file.destination {
            Destination::JobDirectory => (&file.name, None),
            Destination::Path(path) | Destination::JobDirectoryUnlessAt(path) => {
                (&file.name, Some(path))
            }
        },
    };
    let paths = [
        ("working directory", Some(&step.cwd)),
        ("output file", output),
        ("error file", error),
        ("input file", input),
        ("program", Some(program)),
        ("program", destination),
    ];
    let long = |(_, path): &(&str, Option<&OsBytes>)| {
        path.is_some_and(|path| path.as_bytes().len() > MAX_PATH_BYTES)
    };
    match paths.into_iter().find(long) {
        Some((what, _)) => Err(ApiError::new(
            ErrorCode::TooLarge,
            format!("the path of the {what} has more than {MAX_PATH_BYTES} bytes"),
        )
        .hint("use a shorter path; Linux takes none that is longer")),
        None => Ok(()),
    }
}

/// Listings repeat a list of nodes for every job, so it must be short.
fn check_node_list(list: &str) -> Result<(), ApiError> {
    if list.len() <= MAX_NODE_LIST_BYTES {
        return Ok(());
    }
    let message = format!("a list of nodes of the job has more than {MAX_NODE_LIST_BYTES} bytes");
    Err(ApiError::new(ErrorCode::TooLarge, message)
        .hint("name neighbouring nodes, which have one range, or fewer nodes"))
}

fn check_constraint(spec: &JobSpec) -> Result<(), ApiError> {
    let Some(text) = &spec.resources.constraint else { return Ok(()) };
    text.parse::<Constraint>().map(|_| ()).map_err(|why| {
        ApiError::new(ErrorCode::BadRequest, format!("{text:?} is not a constraint"))
            .why(why.to_string())
    })
}

/// Refuses signals that the command line refuses too.
fn check_early_signal(spec: &JobSpec) -> Result<(), ApiError> {
    let Some(asked) = spec.early_signal else { return Ok(()) };
    check_signal(asked.signal)?;
    match asked.script_only && spec.first == FirstStep::Program {
        true => Err(ApiError::new(ErrorCode::BadRequest, "the job has no script to signal")
            .hint("leave B: out of --signal, or submit a script by `storm batch`")),
        false => Ok(()),
    }
}

/// Refuses amounts that the command line refuses too, since other clients may send them.
pub(super) fn check_amounts(spec: &JobSpec) -> Result<(), ApiError> {
    let nothing = |what: &str, hint: &str| {
        Err(ApiError::new(ErrorCode::BadRequest, format!("{what} is 0")).hint(hint))
    };
    match spec.resources.memory {
        Memory::PerNode(0) | Memory::PerCpu(0) => {
            nothing("the memory asked for", "ask for more than 0, or for the memory of whole nodes")
        }
        Memory::PerNode(bytes) | Memory::PerCpu(bytes) if bytes < LEAST_MEMORY_BYTES => {
            let message = format!("{bytes} bytes of memory are not enough to start a process");
            let least = LEAST_MEMORY_BYTES >> 20;
            Err(ApiError::new(ErrorCode::BadRequest, message)
                .hint(format!("ask for {least} MiB or more: --mem {least}M")))
        }
        _ if spec.time_limit.is_some_and(|limit| limit.is_zero()) => {
            nothing("the time limit", "leave the limit out for a job without a limit")
        }
        _ => Ok(()),
    }
}

pub(super) fn request_of(job: JobId, spec: &JobSpec) -> JobRequest {
    let asked = &spec.resources;
    let mut request = JobRequest::new(job, spec.procs);
    request.nodes = spec.nodes;
    request.time_limit = spec.time_limit;
    request.pes_per_proc = asked.cpus_per_task;
    request.procs_per_node = asked.tasks_per_node;
    request.exclusive = asked.exclusive;
    match asked.memory {
        Memory::Unstated => {}
        Memory::PerNode(bytes) => request.mem_per_node = NodeMemory::Bytes(bytes),
        Memory::PerCpu(bytes) => request.mem_per_pe_bytes = bytes,
        Memory::WholeNode => request.mem_per_node = NodeMemory::Whole,
    }
    request = request.with_choice(NodeChoice {
        required: names_in(asked.required_nodes.as_deref()),
        excluded: names_in(asked.excluded_nodes.as_deref()),
    });
    // Admission has refused a text that is no constraint.
    let constraint = asked.constraint.as_deref().and_then(|text| text.parse::<Constraint>().ok());
    constraint.map_or(request.clone(), |constraint| request.with_constraint(constraint))
}

/// The names of a list that admission has folded.
fn names_in(list: Option<&str>) -> BTreeSet<String> {
    let parsed = list.and_then(|list| NodeNames::parse(list, MAX_NODES).ok());
    parsed.iter().flat_map(NodeNames::iter).collect()
}
