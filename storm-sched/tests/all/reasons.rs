//! The texts that users get when they ask why a job does not run.

use storm_sched::policies::{Fcfs, Gang, Sjf};
use storm_sched::{
    Event, JobId, JobRequest, Machine, MplLimit, NodeIndex, NodeMemory, NodeSpec, Policy,
    PolicyParams, SchedTime,
};

const NOW: SchedTime = SchedTime::ZERO;

fn fcfs(nodes: u32, pes_per_node: u32) -> Fcfs {
    Fcfs::new(Machine::uniform(nodes, pes_per_node).unwrap())
}

fn gang(nodes: u32, pes_per_node: u32, rows: u32) -> Gang {
    let mpl_limit = MplLimit::try_from(rows).unwrap();
    let params = PolicyParams { mpl_limit, ..PolicyParams::default() };
    Gang::new(Machine::uniform(nodes, pes_per_node).unwrap(), &params)
}

fn submit(policy: &mut dyn Policy, job: u64, procs: u32) {
    policy.handle(NOW, Event::Submit(JobRequest::new(JobId(job), procs)));
}

fn submit_nodes(policy: &mut dyn Policy, job: u64, procs: u32, nodes: u32) {
    policy.handle(NOW, Event::Submit(JobRequest::new(JobId(job), procs).with_nodes(nodes)));
}

/// The code and the text of the reason of a job.
fn why(policy: &dyn Policy, job: u64) -> (&'static str, String) {
    let reason = policy.explain(NOW, JobId(job)).expect("the job waits");
    (reason.code(), reason.to_string())
}

#[test]
fn the_reason_of_the_head_is_its_shortage() {
    let mut policy = fcfs(64, 4);
    submit(&mut policy, 1, 12);
    submit(&mut policy, 2, 256);
    assert_eq!(policy.explain(NOW, JobId(1)), None, "it runs");
    assert_eq!(
        why(&policy, 2),
        ("Resources", "waits for 12 more free PEs: 244 of 256 are free, 256 are needed".to_owned())
    );
}

#[test]
fn the_reason_of_other_jobs_names_those_ahead_and_their_own_shortage() {
    let mut policy = fcfs(64, 4);
    submit(&mut policy, 1, 12);
    for (job, procs) in [(7, 256), (8, 256), (9, 256), (10, 4)] {
        submit(&mut policy, job, procs);
    }
    let missing = "waits for 12 more free PEs: 244 of 256 are free, 256 are needed";
    assert_eq!(why(&policy, 8), ("Priority", format!("{missing}; job 7 is ahead in the queue")));
    assert_eq!(
        why(&policy, 9),
        ("Priority", format!("{missing}; job 7 and 1 other are ahead in the queue"))
    );
    assert_eq!(
        why(&policy, 10).1,
        "there is room for it now, but job 7 and 2 others are ahead in the queue, \
         and no job passes another"
    );
}

#[test]
fn the_reason_of_a_job_for_exact_nodes_counts_nodes() {
    let mut policy = fcfs(3, 4);
    submit(&mut policy, 1, 1);
    submit_nodes(&mut policy, 2, 12, 3);
    assert_eq!(
        why(&policy, 2).1,
        "waits for 1 more node with 4 free PEs: there are 2, 3 are needed"
    );
    let mut policy = gang(3, 4, 1);
    submit(&mut policy, 1, 1);
    submit_nodes(&mut policy, 2, 12, 3);
    assert_eq!(
        why(&policy, 2).1,
        "the matrix is full at 1 row (multiprogramming limit), and the roomiest, row 0, has \
         2 of the 3 nodes with 4 free PEs needed"
    );
}

#[test]
fn a_full_matrix_is_named_with_its_roomiest_row() {
    let mut policy = gang(2, 4, 2);
    submit(&mut policy, 1, 8);
    submit(&mut policy, 2, 4);
    submit(&mut policy, 3, 8);
    assert_eq!(
        why(&policy, 3),
        (
            "Resources",
            "the matrix is full at 2 rows (multiprogramming limit), and the roomiest, row 1, \
             has 4 of the 8 free PEs needed"
                .to_owned()
        )
    );
}

#[test]
fn nodes_that_are_down_are_named() {
    for policy in [&mut fcfs(64, 4) as &mut dyn Policy, &mut gang(64, 4, 4)] {
        for node in [2, 8] {
            policy.handle(NOW, Event::NodeDown(NodeIndex(node)));
        }
        submit(policy, 1, 256);
        assert_eq!(
            why(policy, 1),
            (
                "ReqNodeNotAvail",
                "n3 and n9 are down: 248 of the 256 PEs asked for are up".to_owned()
            )
        );
        policy.handle(NOW, Event::NodeUp(NodeIndex(2)));
        policy.handle(NOW, Event::NodeDrained(NodeIndex(4)));
        assert_eq!(
            why(policy, 1).1,
            "n9 is down, n5 is drained: 248 of the 256 PEs asked for are up"
        );
        policy.handle(NOW, Event::NodeUp(NodeIndex(4)));
        policy.handle(NOW, Event::NodeUp(NodeIndex(8)));
        assert_eq!(policy.running(), [JobId(1)]);
    }
}

#[test]
fn a_refused_node_is_named_as_refused_also_behind_a_shorter_job() {
    let machine = Machine::uniform(2, 4).unwrap();
    let mut policy = Sjf::new(machine, &PolicyParams::default());
    policy.handle(NOW, Event::NodeDrained(NodeIndex(1)));
    for job in [1, 2] {
        submit(&mut policy, job, 8);
    }
    let mut reason = policy.explain(NOW, JobId(2)).expect("the job waits");
    reason.mark_refused(|node| node == "n2");
    assert_eq!(
        reason.to_string(),
        "n2 is refused: 4 of the 8 PEs asked for are up; job 1 is ahead in the queue by shorter \
         time limits"
    );
}

#[test]
fn many_dead_nodes_are_counted_after_the_first() {
    let mut policy = fcfs(64, 4);
    for node in 0..11 {
        policy.handle(NOW, Event::NodeDown(NodeIndex(node)));
    }
    submit_nodes(&mut policy, 1, 60, 60);
    assert_eq!(
        why(&policy, 1).1,
        "n1, n2, n3, n4, n5, n6, n7 and n8 are down, 3 more nodes are unavailable: \
         53 of the 60 nodes with 1 PE needed are up"
    );
}

#[test]
fn reasons_follow_the_queue() {
    let mut policy = gang(1, 2, 1);
    for job in 1..=3 {
        submit(&mut policy, job, 2);
    }
    assert!(why(&policy, 3).1.ends_with("job 2 is ahead in the queue"));
    policy.handle(NOW, Event::Cancel(JobId(2)));
    assert_eq!(why(&policy, 3).0, "Resources");
    assert_eq!(policy.explain(NOW, JobId(2)), None);
}

/// Four nodes of 4 PEs and 8 bytes; the last two have feature gpu.
fn machine_with_gpus() -> Machine {
    let node = |number: u32| {
        let features = ["gpu"].into_iter().filter(|_| number > 2);
        NodeSpec::new(format!("n{number}"), 4).with_memory(8).with_features(features)
    };
    Machine::of_nodes((1..=4).map(node)).unwrap()
}

#[test]
fn the_reason_names_every_demand_of_the_job() {
    let mut policy = Fcfs::new(machine_with_gpus());
    let request = |job, procs| JobRequest::new(JobId(job), procs);
    let gpu = |request: JobRequest| request.with_constraint("gpu".parse().unwrap());
    policy.handle(NOW, Event::Submit(gpu(request(1, 1)).with_node_memory(NodeMemory::Bytes(6))));
    let two_large = gpu(request(2, 2)).with_nodes(2).with_node_memory(NodeMemory::Bytes(4));
    policy.handle(NOW, Event::Submit(two_large));
    assert_eq!(
        why(&policy, 2).1,
        "waits for 1 more node with 1 free PE, 4 B of free memory and the features asked for: \
         there are 1, 2 are needed"
    );
    policy.handle(NOW, Event::Submit(gpu(request(3, 3)).with_pes_per_proc(2)));
    assert_eq!(
        why(&policy, 3).1,
        "there is room for it now, but job 2 is ahead in the queue, and no job passes another"
    );
    policy.handle(NOW, Event::Cancel(JobId(2)));
    policy.handle(NOW, Event::Submit(request(4, 3).with_exclusive_nodes().with_procs_per_node(1)));
    assert_eq!(policy.running(), [JobId(1), JobId(3)]);
    assert_eq!(
        why(&policy, 4),
        (
            "Resources",
            "waits for room for 1 more process on nodes with 1 free PE for each process, \
             no other job and no more than 1 process each: there is room for 2, 3 are needed"
                .to_owned()
        )
    );
}

#[test]
fn only_suitable_down_nodes_are_named() {
    let mut policy = Fcfs::new(machine_with_gpus());
    for node in [0, 3] {
        policy.handle(NOW, Event::NodeDown(NodeIndex(node)));
    }
    let request = JobRequest::new(JobId(1), 8).with_constraint("gpu".parse().unwrap());
    policy.handle(NOW, Event::Submit(request));
    assert_eq!(
        why(&policy, 1),
        (
            "ReqNodeNotAvail",
            "n4 is down: those with 1 PE for each process and the features asked for that are up \
             have room for 4 of 8 processes"
                .to_owned()
        )
    );
}

#[test]
fn memory_of_a_stopped_job_is_not_free() {
    let params = PolicyParams::default();
    let mut policy = Gang::new(machine_with_gpus(), &params);
    let request =
        |job, bytes| JobRequest::new(JobId(job), 16).with_node_memory(NodeMemory::Bytes(bytes));
    for (job, bytes) in [(1, 5), (2, 3), (3, 1)] {
        policy.handle(NOW, Event::Submit(request(job, bytes)));
    }
    assert_eq!(policy.running(), [JobId(1), JobId(2)], "each row has 8 bytes in all");
    assert_eq!(
        why(&policy, 3).1,
        "waits for room for 16 more processes on nodes with 1 free PE for each process and \
         1 B of free memory: there is room for 0, 16 are needed"
    );
    policy.handle(NOW, Event::Finished(JobId(2)));
    assert_eq!(policy.running(), [JobId(1), JobId(3)]);
}
