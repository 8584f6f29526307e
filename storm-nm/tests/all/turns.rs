//! Rows under buffered coscheduling. A row whose ranks all wait here gives its elements away, slice
//! by slice. The row gets its elements back with the next strobe, or when a message has arrived for
//! it.

use crate::core_properties::{joined, key, launch};
use std::rc::Rc;
use storm_nm::{Action, Event, JobKey, NodeCore};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, LaunchJob, RankExit, Report, Strobe};
use storm_rm::{Coscheduling, JobId, PartitionId, Rank, Row, StepId, StepRef};

/// A node with a running job in each of rows 0 and 1; row 0 is active.
fn node() -> NodeCore {
    let mut core = joined(4);
    for (job, rows) in [(1, 0b01), (2, 0b10)] {
        let launch = LaunchJob { buffered: true, ..launch(job, 1, rows, 0) };
        core.handle(Event::Command(Command::LaunchJob(Rc::new(launch))));
        let launched = core.handle(Event::Prepared { job: key(job, 1), outcome: Ok(()) });
        let stopped = matches!(launched[..], [Action::Launch { stopped: true, .. }]);
        assert_eq!(stopped, job == 2, "{launched:?}");
    }
    core
}

/// Lets these jobs wait. Returns the jobs that are stopped and resumed.
fn wait(core: &mut NodeCore, jobs: &[u64]) -> Option<(Vec<JobKey>, Vec<JobKey>)> {
    let jobs = jobs.iter().map(|job| key(*job, 1)).collect();
    switched(core.handle(Event::Waiting { jobs }))
}

fn strobe(core: &mut NodeCore, row: u32, number: u64) -> Option<(Vec<JobKey>, Vec<JobKey>)> {
    let strobe = Strobe { partition: PartitionId(0), row: Row(row), number, issued_ns: 0 };
    switched(core.handle(Event::Command(Command::Strobe(strobe))))
}

fn switched(actions: Vec<Action>) -> Option<(Vec<JobKey>, Vec<JobKey>)> {
    let switches = actions.into_iter().filter_map(|action| match action {
        Action::Switch { stop, resume, .. } => Some((stop, resume)),
        _ => None,
    });
    switches.last()
}

#[test]
fn a_row_that_waits_gives_its_elements_to_one_that_does_not() {
    let mut core = node();
    let (one, two) = (vec![key(1, 1)], vec![key(2, 1)]);
    assert_eq!(wait(&mut core, &[]), None);
    assert_eq!(wait(&mut core, &[1]), Some((one.clone(), two.clone())));
    assert_eq!(wait(&mut core, &[1]), None, "it goes on");
    // A message has arrived for the first job, whose quantum it is.
    assert_eq!(wait(&mut core, &[]), Some((two.clone(), one.clone())));
    assert_eq!(wait(&mut core, &[1, 2]), None, "nobody has anything to do");
    assert_eq!(wait(&mut core, &[1]), Some((one.clone(), two.clone())));
    assert_eq!(wait(&mut core, &[1, 2]), Some((two.clone(), one.clone())));
    // At the strobe of the other row, everything is as if no row had yielded.
    assert_eq!(wait(&mut core, &[1]), Some((one.clone(), two.clone())));
    assert_eq!(strobe(&mut core, 1, 1), Some((Vec::new(), Vec::new())));
    assert_eq!(strobe(&mut core, 0, 2), Some((two, one)));
}

#[test]
fn a_rank_that_is_gone_before_its_time_is_told_of_and_one_that_has_ended_well_is_not() {
    let exit = |rank, status| {
        let exit = RankExit { rank: Rank(rank), status, user_us: 0, system_us: 0, max_rss_kib: 0 };
        Event::Host(storm_nm::HostEvent::Exited { job: key(1, 1), exit })
    };
    let told = |actions: &[Action]| {
        actions.iter().any(|action| matches!(action, Action::RankGone { rank: Rank(0), .. }))
    };
    let mut core = node();
    assert!(!told(&core.handle(exit(0, ExitStatus::Code(0)))));
    let mut core = node();
    assert!(told(&core.handle(exit(0, ExitStatus::Signal(9)))));
    let mut core = node();
    assert!(!told(&core.handle(exit(0, ExitStatus::Code(3)))), "it speaks no MPI");
    let says = |line: &str| {
        let (job, line) = (key(1, 1), line.to_owned());
        Event::Host(storm_nm::HostEvent::Pmi { job, rank: Rank(0), line })
    };
    let init = "cmd=init pmi_version=1 pmi_subversion=1";
    for code in [0, 3] {
        let mut core = node();
        core.handle(says(init));
        assert!(told(&core.handle(exit(0, ExitStatus::Code(code)))), "it was among them");
        let mut core = node();
        core.handle(says(init));
        core.handle(says("cmd=finalize"));
        assert!(!told(&core.handle(exit(0, ExitStatus::Code(code)))), "it had left them");
    }
}

#[test]
fn a_rank_that_was_one_program_ends_those_whose_second_waits_for_it() {
    let mut core = node();
    let mut says = |rank, line: &str| {
        let (job, line) = (key(1, 1), line.to_owned());
        core.handle(Event::Host(storm_nm::HostEvent::Pmi { job, rank: Rank(rank), line }))
    };
    for rank in 0..2 {
        says(rank, "cmd=init pmi_version=1 pmi_subversion=1");
        says(rank, "cmd=finalize");
    }
    says(0, "cmd=init pmi_version=1 pmi_subversion=1");
    says(0, "cmd=barrier_in");
    let (status, rank) = (ExitStatus::Code(0), Rank(1));
    let exit = RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 };
    let actions = core.handle(Event::Host(storm_nm::HostEvent::Exited { job: key(1, 1), exit }));
    let reason = actions.iter().find_map(|action| match action {
        Action::Post { report: Report::JobFailed { reason, .. }, .. } => Some(reason.as_str()),
        _ => None,
    });
    let reason = reason.unwrap_or_else(|| panic!("it waits for ever: {actions:?}"));
    assert!(
        reason.ends_with("rank 1 is gone and rank 0 waits for it in a PMI barrier"),
        "{reason}"
    );
}

#[test]
fn a_job_that_a_rank_submits_inherits_what_its_user_set_and_nothing_that_storm_did() {
    use storm_rm::{ArraySpec, ArrayTask, Memory};
    let mut launch = launch(7, 1, 1, 0);
    launch.task = Some(ArrayTask { array: JobId(7), index: 2 });
    let spec = Rc::make_mut(&mut launch.spec);
    spec.resources.tasks_per_node = Some(2);
    spec.needs.array = "1-3".parse::<ArraySpec>().ok();
    let users = [("OMPI_MCA_mpi_yield_when_idle", "1"), ("PATH", "/bin"), ("STORM_SOCKET", "/s")];
    spec.step.env = users.map(|(name, value)| (name.into(), value.into())).into_iter().collect();
    let names = storm_nm::NodeNames {
        node: NodeId(1),
        name: "n1".to_owned(),
        address: "::1".to_owned(),
        pes: 1,
        has_commands: false,
    };
    let waiting = [("STORM_MPI_WAIT", "spin-block"), ("STORM_MPI_WAKE_US", "5")];
    let waiting = waiting.map(|(name, value)| (name, value.to_owned()));
    for memory in [Memory::PerNode(1 << 20), Memory::PerCpu(1 << 20)] {
        Rc::make_mut(&mut launch.spec).resources.memory = memory;
        let task =
            storm_nm::JobTask::of_node(Rc::new(launch.clone()), NodeId(1)).expect("it has ranks");
        // A host of one core: libraries are configured to yield.
        let told = storm_nm::rank_environment(&task, Rank(0), &names, "/j".as_ref(), 1, &waiting);
        assert!(told.iter().any(|(name, _)| name == "OMPI_MCA_schizo"), "{told:?}");
        let text = |text: &str| std::ffi::OsString::from(text);
        let users = users.map(|(name, value)| (text(name), text(value)));
        let pmi = (text("PMI_FD"), text("3"));
        let rank: Vec<_> = users.iter().cloned().chain(told).chain([pmi]).collect();
        assert_eq!(storm_nm::environment_to_submit(rank.clone()), users);
        // A variable that a rank changes counts as set by its user.
        let changed = (text("OMPI_MCA_schizo"), text("ompi"));
        let own = rank.into_iter().filter(|(name, _)| name != "OMPI_MCA_schizo");
        let own = own.chain([changed.clone()]);
        let submitted = storm_nm::environment_to_submit(own);
        assert_eq!(submitted, users.into_iter().chain([changed]).collect::<Vec<_>>());
        // A process that is no rank keeps its whole environment.
        let outside = vec![(text("PMI_RANK"), text("0"))];
        assert_eq!(storm_nm::environment_to_submit(outside.clone()), outside);
    }
}

/// Scripts, and programs without one, know their place by Slurm's names.
#[test]
fn ranks_of_a_program_have_slurms_numbers_and_a_restarted_script_its_count() {
    let names = storm_nm::NodeNames {
        node: NodeId(1),
        name: "n1".to_owned(),
        address: "::1".to_owned(),
        pes: 1,
        has_commands: false,
    };
    let of = |launch: LaunchJob, rank: u32| {
        let task = storm_nm::JobTask::of_node(Rc::new(launch), NodeId(1)).expect("it has ranks");
        storm_nm::rank_environment(&task, Rank(rank), &names, "/j".as_ref(), 8, &[])
    };
    let value = |told: &[(std::ffi::OsString, std::ffi::OsString)], name: &str| {
        let found = told.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    };
    let told = of(launch(7, 1, 1, 0), 1);
    assert_eq!(value(&told, "SLURM_PROCID").as_deref(), Some("1"));
    assert_eq!(value(&told, "SLURM_LOCALID").as_deref(), Some("1"));
    assert_eq!(value(&told, "SLURM_NODELIST"), None);
    let mut script = launch(7, 1, 1, 0);
    Rc::make_mut(&mut script.spec).first = storm_rm::FirstStep::Script;
    script.step.step = storm_rm::StepId::Batch;
    script.facts.partition = "night".to_owned();
    script.facts.account = Some("physics".to_owned());
    assert_eq!(value(&of(script.clone(), 0), "SLURM_RESTART_COUNT"), None);
    script.facts.restarts = 2;
    let told = of(script, 0);
    for (name, expected) in [
        ("SLURM_JOB_PARTITION", "night"),
        ("SLURM_JOB_ACCOUNT", "physics"),
        ("SLURM_RESTART_COUNT", "2"),
        ("SLURM_PROCID", "0"),
    ] {
        assert_eq!(value(&told, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(told.iter().filter(|(name, _)| name == "SLURM_JOB_ID").count(), 1);
}

/// Each variable that a node sets for a script or a step is known as the node's own.
#[test]
fn a_job_that_a_script_or_a_step_submits_inherits_none_of_their_variables() {
    let names = storm_nm::NodeNames {
        node: NodeId(1),
        name: "n1".to_owned(),
        address: "::1".to_owned(),
        pes: 1,
        has_commands: false,
    };
    for step in [StepId::Batch, StepId::Number(2)] {
        let mut launch = launch(7, 1, 1, 0);
        launch.step = StepRef { step, ..launch.step };
        let spec = Rc::make_mut(&mut launch.spec);
        spec.first = storm_rm::FirstStep::Script;
        spec.resources.cpus_per_task = 2;
        let task = storm_nm::JobTask::of_node(Rc::new(launch), NodeId(1)).expect("it has ranks");
        let told = storm_nm::rank_environment(&task, Rank(0), &names, "/j".as_ref(), 8, &[]);
        assert!(told.iter().any(|(name, _)| name == "SLURM_CPUS_PER_TASK"), "{told:?}");
        assert_eq!(storm_nm::environment_to_submit(told), [], "{step}");
    }
}

#[test]
fn variables_of_an_outer_job_do_not_count_for_an_inner_one() {
    let inherited = [
        ("STORM_MPI_TRANSPORT", "bcs"),
        ("STORM_MPI_PAGE", "/outer"),
        ("STORM_MPI_REMOTE_US", "70"),
        ("STORM_MPI_RDMA_DEVICE", "mlx5_7"),
    ];
    let env: Vec<_> = inherited.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
    for (buffered, transport) in [(false, "direct"), (true, "bcs")] {
        let mut core = joined(4);
        let mut launch = LaunchJob { buffered, ..launch(1, 1, 1, 0) };
        Rc::make_mut(&mut launch.spec).step.env = env.clone().into();
        core.handle(Event::Command(Command::LaunchJob(Rc::new(launch))));
        let launched = core.handle(Event::Prepared { job: key(1, 1), outcome: Ok(()) });
        let [Action::Launch { task, .. }] = &launched[..] else { panic!("{launched:?}") };
        let names = storm_nm::NodeNames {
            node: NodeId(1),
            name: "n1".to_owned(),
            address: "10.0.0.1".to_owned(),
            pes: 8,
            has_commands: false,
        };
        let waiting = [
            ("STORM_MPI_PAGE", "/own"),
            ("STORM_MPI_REMOTE_US", "60"),
            ("STORM_MPI_RDMA_DEVICE", "mlx5_0"),
        ];
        let waiting = waiting.map(|(name, value)| (name, value.to_owned()));
        let told = storm_nm::rank_environment(task, Rank(0), &names, "/j".as_ref(), 8, &waiting);
        let value = |name: &str| {
            let found = told.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str())
        };
        assert_eq!(value("STORM_MPI_TRANSPORT"), Some(transport));
        assert_eq!(value("STORM_MPI_PAGE"), Some("/own"));
        assert_eq!(value("STORM_MPI_RDMA_DEVICE"), Some("mlx5_0"));
        assert_eq!(value("STORM_MPI_REMOTE_US"), None, "the submitter's word counts");
    }
}

#[test]
fn a_job_that_is_prepared_hears_afterwards_that_it_runs_together_in_another_way() {
    let mut core = node();
    let third = Rc::new(launch(3, 1, 0b01, 0));
    core.handle(Event::Command(Command::LaunchJob(third)));
    let local = Coscheduling::Local;
    let told = Command::Coschedule { job: JobId(3), coscheduling: local };
    assert_eq!(core.handle(Event::Command(told.clone())), [], "it has no processes yet");
    let launched = core.handle(Event::Prepared { job: key(3, 1), outcome: Ok(()) });
    let coschedule = Action::Coschedule { job: key(3, 1), coscheduling: local };
    assert!(matches!(&launched[..], [Action::Launch { .. }, last] if *last == coschedule));
    assert_eq!(core.handle(Event::Command(told)), [coschedule]);
}
