//! The state that a modelled node keeps between a node manager and the next.

use crate::support::{launch_on, ms};
use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_nm::modelled::{HostAct, Model, ModelledHost, Script, Step};
use storm_nm::{Flaw, Host, HostEvent, InheritedInput, JobTask, PmiStep};
use storm_primitives::sim::{SimRuntime, Simulation};
use storm_primitives::{NodeId, NodeSet, Runtime};
use storm_rm::message::{CutLaunch, ExitStatus, NodeReturn, Report, Stream};
use storm_rm::{Rank, RowSet};

const RETURN: NodeReturn = NodeReturn { within_ms: 100, leased_within_ms: 80 };
/// Longer than a rank takes to start.
const STARTED: Duration = Duration::from_millis(1);
/// A rank stays silent for this time, until all ranks have started.
const QUIET: Step = Step::Compute(Duration::from_millis(2));

type Acts = Rc<RefCell<Vec<HostAct>>>;

/// A node with a node manager and a job.
struct Node {
    host: ModelledHost<SimRuntime>,
    runtime: SimRuntime,
    task: Rc<JobTask>,
    acts: Acts,
}

impl Node {
    fn new(simulation: &Simulation, steps: Vec<Step>) -> Node {
        let (acts, runtime) = (Acts::default(), simulation.runtime());
        let noted = acts.clone();
        let model = Model {
            returns: Some(RETURN),
            program: Rc::new(move |_| Script::of(steps.clone())),
            observer: Rc::new(move |act| noted.borrow_mut().push(act.clone())),
            ..Model::default()
        };
        let launch = launch_on(&NodeSet::single(NodeId(1)), 1, RowSet::ALL);
        let task = JobTask::of_node(Rc::new(launch), NodeId(1)).expect("it has ranks here");
        let host = ModelledHost::new(runtime.clone(), model);
        host.manager_begins();
        assert!(host.inherit().is_empty());
        Node { host, runtime, task: Rc::new(task), acts }
    }

    async fn started(&self) {
        self.host.launch(&self.task, false);
        self.runtime.sleep(STARTED).await;
        for _ in self.task.ranks() {
            let event = self.host.next_event().await;
            assert!(matches!(event, HostEvent::Launched { .. }), "{event:?}");
        }
    }

    fn has_ended_all(&self) -> bool {
        self.acts.borrow().contains(&HostAct::KeeperEnded)
    }
}

fn run<F: Future<Output = ()> + 'static>(steps: Vec<Step>, body: impl FnOnce(Node) -> F) {
    let simulation = Simulation::new(1);
    let node = Node::new(&simulation, steps);
    simulation.run(body(node)).expect("it ends");
}

#[test]
fn requests_and_fences_are_handed_over_with_those_that_wait() {
    let put = Step::Put { key: "a".to_owned(), value: "b".to_owned() };
    run(vec![QUIET, put, Step::Fence], |node| async move {
        node.started().await;
        let key = node.task.key();
        let HostEvent::Pmi { rank, line, .. } = node.host.next_event().await else { panic!() };
        node.host.pmi_reply(key, rank, "cmd=put_result rc=0");
        node.host.remember_fence(key.step, 1, &[]);
        node.runtime.sleep(STARTED).await;
        node.host.manager_ends();
        node.host.manager_begins();
        let inherited = node.host.inherit().remove(0);
        assert!(!inherited.stopped);
        let fence = PmiStep::FenceDone { sequence: 1, puts: Vec::new() };
        assert_eq!(inherited.pmi, [PmiStep::Line { rank, line }, fence]);
        // No node manager has taken the two requests: a barrier and a pair.
        let waiting = inherited.open_requests;
        assert!(
            waiting.len() == 2 && waiting.iter().all(|(_, line)| line.is_some()),
            "{waiting:?}"
        );
        for _ in node.task.ranks() {
            assert!(matches!(node.host.next_event().await, HostEvent::Launched { .. }));
        }
    });
}

#[test]
fn a_request_that_was_taken_waits_for_its_answer_alone() {
    let get = Step::Get { key: "a".to_owned() };
    run(vec![QUIET, Step::Fence, get], |node| async move {
        node.started().await;
        let HostEvent::Pmi { rank, .. } = node.host.next_event().await else { panic!() };
        node.host.manager_ends();
        node.host.manager_begins();
        let waiting = node.host.inherit().remove(0).open_requests;
        assert!(waiting.contains(&(rank, None)), "{waiting:?}");
        node.host.pmi_reply(node.task.key(), rank, "cmd=barrier_out");
        node.runtime.sleep(STARTED).await;
        for _ in node.task.ranks() {
            assert!(matches!(node.host.next_event().await, HostEvent::Launched { .. }));
        }
        assert!(matches!(node.host.next_event().await, HostEvent::Pmi { .. }));
        node.host.manager_ends();
        // A question is not logged, so the rank must repeat the question.
        let waiting = node.host.inherit().remove(0).open_requests;
        let asked = waiting.iter().find(|(of, _)| *of == rank).and_then(|(_, line)| line.as_ref());
        assert!(asked.is_some_and(|line| line.starts_with("cmd=get ")), "{waiting:?}");
    });
}

#[test]
fn output_and_input_are_counted_over_node_managers() {
    run(vec![Step::Write(Stream::Stdout, Bytes::from("hello")), Step::Echo], |node| async move {
        node.started().await;
        let (host, key, rank) = (&node.host, node.task.key(), Rank(0));
        let out = host.read_output(key, rank, Stream::Stdout, 3).await;
        assert_eq!(out.as_deref(), Some(b"hel".as_slice()));
        host.write_input(key, rank, Bytes::from("abcd")).await;
        host.manager_ends();
        host.manager_begins();
        let inherited = host.inherit().remove(0);
        assert!(inherited.inputs.contains(&InheritedInput { rank, taken_bytes: 4 }));
        let [Report::Output { offset: 0, data, .. }] = &*inherited.outputs else { panic!() };
        assert_eq!(&**data, b"hel");
        assert_eq!(host.output_offset(key, rank, Stream::Stdout), 3);
        host.write_input(key, rank, Bytes::from("e")).await;
        assert_eq!(host.inherit().remove(0).inputs[0].taken_bytes, 5);
    });
}

#[test]
fn the_keeper_ends_all_at_its_bound_and_not_before() {
    run(vec![Step::Compute(ms(10_000))], |node| async move {
        node.started().await;
        node.host.manager_ends();
        node.runtime.sleep(ms(99)).await;
        assert_eq!((node.has_ended_all(), node.host.live_processes()), (false, 2));
        node.host.manager_begins();
        node.runtime.sleep(ms(500)).await;
        assert!(!node.has_ended_all(), "the next node manager is there");
        node.host.manager_ends();
        node.runtime.sleep(ms(101)).await;
        assert_eq!((node.has_ended_all(), node.host.live_processes()), (true, 0));
        assert!(node.host.inherit().is_empty());
    });
}

#[test]
fn a_lease_runs_out_without_a_node_manager_and_the_next_one_hears_it_first() {
    run(vec![Step::Compute(ms(10_000))], |node| async move {
        node.started().await;
        let job = node.task.key();
        node.host.renew_leases(&[job], ms(80));
        node.host.manager_ends();
        node.runtime.sleep(ms(90)).await;
        node.host.manager_begins();
        assert_eq!(node.host.inherit().len(), 1);
        assert_eq!(node.host.next_event().await, HostEvent::LeaseOver { job });
        let mut killed = 0;
        while killed < 2 {
            match node.host.next_event().await {
                HostEvent::Exited { exit, .. } => {
                    assert_eq!(exit.status, ExitStatus::Signal(9));
                    killed += 1;
                }
                event => assert!(matches!(event, HostEvent::Launched { .. }), "{event:?}"),
            }
        }
    });
}

#[test]
fn a_node_manager_without_jobs_leaves_nothing() {
    run(Vec::new(), |node| async move {
        node.host.manager_ends();
        assert!(node.host.is_clean() || node.acts.borrow().contains(&HostAct::Left));
        node.runtime.sleep(ms(200)).await;
        assert!(!node.has_ended_all());
    });
}

#[test]
fn a_launch_is_cut_off_if_no_rank_executes_when_the_node_manager_ends() {
    run(vec![Step::Compute(ms(10_000))], |node| async move {
        node.host.launch(&node.task, false);
        node.host.manager_ends();
        node.host.manager_begins();
        let cut = Flaw::LaunchCut(CutLaunch::Interrupted);
        assert_eq!(node.host.inherit().remove(0).flaw, Some(cut));
    });
}
