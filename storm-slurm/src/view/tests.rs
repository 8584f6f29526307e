//! The texts are those of Slurm 22.05.8 for a job with these facts, apart from what only Slurm's
//! scheduler knows (`docs/slurm.md`, "Differences").

use super::sacct::{Form, SacctLayout, SacctRow, UnitChoice};
use super::sinfo::{Grouping, SINFO_FIELDS, default_format, default_order, fitting, group};
use super::squeue::{DEFAULT_FORMAT, DEFAULT_ORDER, JOB_FIELDS, Order, fold_arrays};
use super::*;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::rc::Rc;

fn at(clock: &str) -> Timestamp {
    format!("2026-11-28T{clock}Z").parse().expect(clock)
}

fn show() -> Show {
    Show::new(TimeZone::UTC, at("22:22:37"), "peer")
}

/// `sbatch -n2 -t 10 -J sleeper --comment "a comment" --wrap ...`, after 24 seconds.
fn sleeper() -> JobFacts {
    JobFacts {
        name: "sleeper".to_owned(),
        user: "root".to_owned(),
        group: Some("root".to_owned()),
        gid: Some(0),
        account: Some("root".to_owned()),
        partition: "all".to_owned(),
        state: StateCode::Running,
        node_list: "n1".to_owned(),
        batch_host: Some("n1".to_owned()),
        tasks: 2,
        cpus: 2,
        time_limit_s: Some(600),
        ran_s: 24,
        eligible: Some(at("22:22:13")),
        start: Some(at("22:22:13")),
        priority: Some(4_294_901_759),
        batch: true,
        requeue: true,
        work_dir: Some("/home/ada".to_owned()),
        stdout: Some("/home/ada/slurm-1.out".to_owned()),
        stderr: Some("/home/ada/slurm-1.out".to_owned()),
        comment: Some("a comment".to_owned()),
        ..JobFacts::submitted(1, at("22:22:13"))
    }
}

/// A job of the array 4 that waits.
fn task(index: u32) -> JobFacts {
    JobFacts {
        id: 5 + u64::from(index),
        array: Some(ArrayPlace { job: 4, tasks: Tasks::One(index), limit: Some(2) }),
        name: "arr".to_owned(),
        state: StateCode::Pending,
        reason: "JobArrayTaskLimit".to_owned(),
        node_list: String::new(),
        batch_host: None,
        start: None,
        ran_s: 0,
        tasks: 1,
        cpus: 1,
        time_limit_s: Some(93_840),
        priority: None,
        ..sleeper()
    }
}

#[test]
fn every_letter_of_squeue_is_as_in_slurm() {
    let (layout, unknown) = Layout::of_letters("%all", JOB_FIELDS);
    assert_eq!(unknown, []);
    assert_eq!(
        layout.heads(),
        "ACCOUNT|TRES_PER_NODE|MIN_CPUS|MIN_TMP_DISK|END_TIME|FEATURES|GROUP|OVER_SUBSCRIBE|JOBID|\
         NAME|COMMENT|TIME_LIMIT|MIN_MEMORY|REQ_NODES|COMMAND|PRIORITY|QOS|REASON||ST|USER|\
         RESERVATION|WCKEY|EXC_NODES|NICE|S:C:T|JOBID|EXEC_HOST|CPUS|NODES|DEPENDENCY|\
         ARRAY_JOB_ID|GROUP|SOCKETS_PER_NODE|CORES_PER_SOCKET|THREADS_PER_CORE|ARRAY_TASK_ID|\
         TIME_LEFT|TIME|NODELIST|CONTIGUOUS|PARTITION|PRIORITY|NODELIST(REASON)|START_TIME|STATE|\
         UID|SUBMIT_TIME|LICENSES|CORE_SPEC|SCHEDNODES|WORK_DIR\n"
    );
    assert_eq!(
        layout.row(&sleeper(), &show()),
        "root|N/A|1|0|2026-11-28T22:32:13|(null)|root|OK|1|sleeper|a comment|10:00|0||(null)|\
         0.99998474121093|normal|None||R|root|(null)|(null)||0|*:*:*|1|n1|2|1|(null)|1|0|*|*|*|\
         N/A|9:36|0:24|n1|0|all|4294901759|n1|2026-11-28T22:22:13|RUNNING|0|2026-11-28T22:22:13|\
         (null)|N/A|(null)|/home/ada\n"
    );
}

#[test]
fn waiting_jobs_of_an_array_are_one_line_before_those_that_run() {
    let (layout, _) = Layout::of_letters(DEFAULT_FORMAT, JOB_FIELDS);
    let mut jobs = vec![sleeper()];
    jobs.extend((2..10).map(task));
    let mut jobs = fold_arrays(jobs);
    Order::of(DEFAULT_ORDER).expect("an order").sort(&mut jobs, &show());
    let rows: String = jobs.iter().map(|job| layout.row(job, &show())).collect();
    assert_eq!(
        layout.heads() + &rows,
        [
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES ",
            "NODELIST(REASON)\n",
            "         4_[2-9%2]       all      arr     root PD       0:00      1 ",
            "(JobArrayTaskLimit)\n",
            "                 1       all  sleeper     root  R       0:24      1 n1\n",
        ]
        .concat()
    );
    assert!(Order::of("bogus").is_err());
}

#[test]
fn sacct_fills_its_columns_as_slurm_does() {
    let cancelled = JobFacts {
        state: StateCode::Cancelled,
        exit: ExitCode { code: 0, signal: 15 },
        cancelled_by: Some(0),
        ended: Some(at("22:22:37")),
        ..sleeper()
    };
    let row = SacctRow::Job { job: Box::new(cancelled), used: None };
    let layout = |format| SacctLayout::of(format).expect("known fields");
    let default = layout(sacct::DEFAULT_FORMAT);
    let text = |layout: &SacctLayout, form: &Form| {
        layout.heads(form) + &layout.row(&row, &show(), UnitChoice::Fitting, form)
    };
    assert_eq!(
        text(&default, &Form::Columns),
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n\
         ------------ ---------- ---------- ---------- ---------- ---------- -------- \n\
         1               sleeper        all       root          2 CANCELLED+      0:0 \n"
    );
    let parsable = |trailing| Form::Parsable { delimiter: "|".to_owned(), trailing };
    assert_eq!(
        text(&default, &parsable(true)),
        "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode|\n\
         1|sleeper|all|root|2|CANCELLED by 0|0:0|\n"
    );
    assert_eq!(
        text(
            &layout("jobid%-5,elapsed,cputimeraw,timelimit,end,alloctres,reqmem"),
            &parsable(false)
        ),
        "JobID|Elapsed|CPUTimeRAW|Timelimit|End|AllocTRES|ReqMem\n\
         1|00:00:24|48|00:10:00|2026-11-28T22:22:37|billing=2,cpu=2,node=1|0\n"
    );
    assert_eq!(text(&layout("jobid%3"), &Form::Columns), "Job \n--- \n  1 \n");
    assert!(SacctLayout::of("bogus").is_err());
}

#[test]
fn a_job_is_shown_in_the_lines_of_scontrol() {
    let shown = scontrol::job(&sleeper(), None, &show(), false);
    assert_eq!(
        shown,
        "JobId=1 JobName=sleeper\n   \
         UserId=root(0) GroupId=root(0) MCS_label=N/A\n   \
         Priority=4294901759 Nice=0 Account=root QOS=normal\n   \
         JobState=RUNNING Reason=None Dependency=(null)\n   \
         Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   \
         RunTime=00:00:24 TimeLimit=00:10:00 TimeMin=N/A\n   \
         SubmitTime=2026-11-28T22:22:13 EligibleTime=2026-11-28T22:22:13\n   \
         AccrueTime=2026-11-28T22:22:13\n   \
         StartTime=2026-11-28T22:22:13 EndTime=2026-11-28T22:32:13 Deadline=N/A\n   \
         SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-28T22:22:13 Scheduler=Main\n   \
         Partition=all AllocNode:Sid=(null):0\n   \
         ReqNodeList=(null) ExcNodeList=(null)\n   \
         NodeList=n1\n   \
         BatchHost=n1\n   \
         NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   \
         TRES=cpu=2,node=1,billing=2\n   \
         Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n   \
         MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0\n   \
         Features=(null) DelayBoot=00:00:00\n   \
         OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n   \
         Command=(null)\n   \
         WorkDir=/home/ada\n   \
         Comment=a comment \n   \
         StdErr=/home/ada/slurm-1.out\n   \
         StdIn=/dev/null\n   \
         StdOut=/home/ada/slurm-1.out\n   \
         Power=\n   \n\n"
    );
    let lines = shown.trim_end_matches('\n').replace("\n   ", " ");
    assert_eq!(scontrol::job(&sleeper(), None, &show(), true), lines + "\n");
}

/// A partition of four nodes.
fn all_nodes() -> PartitionFacts {
    PartitionFacts {
        name: "all".to_owned(),
        default: true,
        up: true,
        node_list: "n[1-4]".to_owned(),
        nodes: 4,
        cpus: 16,
        memory_mib: Some(4),
        max_time_s: None,
        default_time_s: None,
        job_nodes: (0, None),
        rows: 1,
        slices: false,
        accounts: Vec::new(),
        groups: Vec::new(),
    }
}

#[test]
fn sinfo_groups_nodes_that_look_the_same() {
    let node = |number: u32, base, drained| NodeFacts {
        partitions: vec!["all".to_owned()],
        base,
        drained,
        cpus: 4,
        cpus_used: if base == NodeBase::Mixed { 2 } else { 0 },
        reason: drained.then(|| "bad disk".to_owned()),
        memory_mib: Some(1),
        ..NodeFacts::named(&format!("n{number}"))
    };
    let nodes = [
        node(1, NodeBase::Mixed, false),
        node(2, NodeBase::Mixed, false),
        node(3, NodeBase::Idle, false),
        node(4, NodeBase::Idle, true),
    ];
    let partition = all_nodes();
    let text = |form: sinfo::Form, format: &str| {
        let format = fitting(format, std::slice::from_ref(&partition), &nodes);
        let (layout, unknown) = Layout::of_letters(&format, SINFO_FIELDS);
        assert_eq!(unknown, []);
        let nodes: Vec<Rc<NodeFacts>> = nodes.iter().cloned().map(Rc::new).collect();
        let grouping = Grouping { by_node: form.by_node, exact: false };
        let mut lines = group(&[Rc::new(partition.clone())], &nodes, &layout, grouping);
        sinfo::Order::of(default_order(form)).expect("an order").sort(&mut lines, &show());
        let rows: String = lines.iter().map(|line| layout.row(line, &show())).collect();
        layout.heads() + &rows
    };
    let form = sinfo::Form::default();
    assert_eq!(
        text(form, default_format(form)),
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
         all*         up   infinite      1  drain n4\n\
         all*         up   infinite      2    mix n[1-2]\n\
         all*         up   infinite      1   idle n3\n"
    );
    let by_node = sinfo::Form { by_node: true, long: true, ..form };
    assert_eq!(
        text(by_node, default_format(by_node)),
        [
            "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT ",
            "AVAIL_FE REASON              \n",
            "n1             1      all*       mixed 4       4:1:1      1        0      1 ",
            "  (null) none                \n",
            "n2             1      all*       mixed 4       4:1:1      1        0      1 ",
            "  (null) none                \n",
            "n3             1      all*        idle 4       4:1:1      1        0      1 ",
            "  (null) none                \n",
            "n4             1      all*     drained 4       4:1:1      1        0      1 ",
            "  (null) bad disk            \n",
        ]
        .concat()
    );
    let summary = sinfo::Form { summary: true, ..form };
    assert_eq!(
        text(summary, default_format(summary)),
        "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n\
         all*         up   infinite          2/1/1/4 n[1-4]\n"
    );
    assert_eq!(text(form, "%C %A %D"), "CPUS(A/I/O/T) NODES(A/I) NODES\n4/8/4/16 2/1 4\n");
}
