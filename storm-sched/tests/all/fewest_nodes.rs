//! The fewest nodes for a job that allows several numbers of nodes.

use proptest::prelude::*;
use std::collections::BTreeSet;
use storm_sched::{JobId, JobRequest, Machine, NodeChoice, feasible, fewest_nodes};

fn machine(pes: &[u32]) -> Machine {
    let nodes = pes.iter().enumerate().map(|(index, pes)| (format!("n{index}"), *pes));
    Machine::new(nodes).expect("a machine")
}

fn names(chosen: &[usize]) -> BTreeSet<String> {
    chosen.iter().map(|index| format!("n{index}")).collect()
}

proptest! {
    /// The answer is that of a check of each number.
    #[test]
    fn no_number_is_left_out_that_would_do(
        pes in proptest::collection::vec(1..7_u32, 1..9),
        procs in 1..24_u32,
        per_node in proptest::option::of(1..7_u32),
        required in proptest::collection::vec(0..9_usize, 0..4),
        excluded in proptest::collection::vec(0..9_usize, 0..3),
        (least, more) in (0..6_u32, 0..9_u32),
    ) {
        let machine = machine(&pes);
        let (required, excluded) = (names(&required), names(&excluded));
        let least = least.max(required.len() as u32);
        let mut request = JobRequest::new(JobId(1), procs);
        if let Some(per_node) = per_node {
            request = request.with_procs_per_node(per_node);
        }
        if !required.is_empty() || !excluded.is_empty() {
            request = request.with_choice(NodeChoice { required, excluded });
        }
        let fits = |nodes: &u32| feasible(&machine, &request.clone().with_nodes(*nodes)).is_ok();
        let each = (least..=least + more).find(fits);
        prop_assert_eq!(fewest_nodes(&machine, &request, least..=least + more), each);
    }
}

/// Regression: each of 2,000 numbers was checked with a walk over 2,000 names and 4,000 nodes.
#[test]
fn a_job_that_names_half_of_a_large_machine_is_refused_without_a_check_of_each_number() {
    let machine = machine(&vec![4; 4_000]);
    let required = names(&(0..2_000).collect::<Vec<_>>());
    let choice = NodeChoice { required, excluded: BTreeSet::new() };
    let request = JobRequest::new(JobId(1), 4_000).with_pes_per_proc(5).with_choice(choice);
    assert_eq!(fewest_nodes(&machine, &request, 2_000..=4_000), None);
}
