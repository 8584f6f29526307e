//! The matrix from outside: holes, rows that come and go, the cursor, and the takeover of running
//! jobs.

use proptest::prelude::*;
use storm_sched::{
    Fit, JobId, JobRequest, Machine, Matrix, MatrixError, MplLimit, NodeIndex, NodeState, Pe,
    Placement, Row,
};

fn matrix(nodes: u32, pes: u32, rows: u32) -> Matrix {
    Matrix::new(Machine::uniform(nodes, pes).unwrap(), MplLimit::try_from(rows).unwrap())
}

fn request(job: u64, procs: u32) -> JobRequest {
    JobRequest::new(JobId(job), procs)
}

fn place(matrix: &mut Matrix, job: u64, procs: u32, row: u32) -> Option<Vec<u32>> {
    let placement = matrix.place(&request(job, procs), Row(row), Fit::Block)?;
    matrix.check().unwrap();
    Some(placement.pes().iter().map(|pe| pe.0).collect())
}

#[test]
fn a_dead_node_is_a_hole_in_every_row() {
    let mut matrix = matrix(4, 2, 2);
    matrix.set_node_state(NodeIndex(1), NodeState::Down);
    assert_eq!(place(&mut matrix, 1, 4, 0), Some(vec![4, 5, 6, 7]));
    assert_eq!(place(&mut matrix, 2, 4, 1), Some(vec![4, 5, 6, 7]));
    assert_eq!(place(&mut matrix, 3, 2, 0), Some(vec![0, 1]));
    assert_eq!(place(&mut matrix, 4, 1, 0), None);
    matrix.set_node_state(NodeIndex(1), NodeState::Up);
    assert_eq!(place(&mut matrix, 4, 2, 0), Some(vec![2, 3]));
}

#[test]
fn columns_of_a_job_on_a_dead_node_return_when_both_are_gone() {
    let mut matrix = matrix(2, 2, 1);
    assert_eq!(place(&mut matrix, 1, 4, 0), Some(vec![0, 1, 2, 3]));
    matrix.set_node_state(NodeIndex(1), NodeState::Down);
    matrix.check().unwrap();
    matrix.release(JobId(1)).unwrap();
    matrix.check().unwrap();
    assert_eq!(place(&mut matrix, 2, 4, 0), None);
    assert_eq!(place(&mut matrix, 3, 2, 0), Some(vec![0, 1]));
    matrix.set_node_state(NodeIndex(1), NodeState::Up);
    assert_eq!(place(&mut matrix, 4, 2, 0), Some(vec![2, 3]));
}

#[test]
fn exact_nodes_get_blocks_that_differ_by_one_rank() {
    let machine = Machine::new([("a", 2), ("b", 4), ("c", 1), ("d", 4), ("e", 2)]).unwrap();
    let mut matrix = Matrix::new(machine, MplLimit::ONE);
    let request = request(1, 8).with_nodes(3);
    let placement = matrix.place(&request, Row(0), Fit::Block).unwrap();
    let blocks: Vec<_> = placement.shares().iter().map(|s| (s.node.0, s.ranks)).collect();
    assert_eq!(blocks, [(0, 2), (1, 3), (3, 3)]);
    matrix.check().unwrap();
}

#[test]
fn deleted_rows_are_opened_again_lowest_first() {
    let mut matrix = matrix(1, 2, 3);
    for (job, row) in [(1, 0), (2, 1), (3, 2)] {
        place(&mut matrix, job, 2, row).unwrap();
    }
    assert_eq!(matrix.vacant_row(), None);
    matrix.release(JobId(2)).unwrap();
    assert_eq!(matrix.vacant_row(), Some(Row(1)));
    matrix.release(JobId(1)).unwrap();
    assert_eq!(matrix.vacant_row(), Some(Row(0)));
    assert_eq!(place(&mut matrix, 4, 2, 3), None, "beyond the limit");
}

#[test]
fn a_running_job_is_taken_over_where_it_is_or_not_at_all() {
    let mut matrix = matrix(2, 2, 2);
    let (first, second) = (request(1, 2), request(2, 2));
    let on = |matrix: &Matrix, pes: &[u32]| {
        Placement::new(matrix.machine(), pes.iter().map(|pe| Pe(*pe)).collect()).unwrap()
    };
    let odd = on(&matrix, &[1, 2]);
    matrix.set_node_state(NodeIndex(1), NodeState::Down);
    matrix.restore(&first, &odd, Row(1)).unwrap();
    matrix.check().unwrap();
    let mut refused = |request: &JobRequest, placement: &Placement, row| {
        matrix.restore(request, placement, Row(row)).unwrap_err()
    };
    assert_eq!(refused(&first, &odd, 0), MatrixError::JobPresent(JobId(1)));
    assert_eq!(refused(&second, &odd, 1), MatrixError::ColumnsTaken(Row(1)));
    let no_row = MatrixError::NoSuchRow { row: Row(2), limit: 2 };
    assert_eq!(refused(&second, &odd, 2), no_row);
    let other_size = MatrixError::OtherSize { asked: 3, placed: 2 };
    assert_eq!(refused(&request(3, 3), &odd, 0), other_size);
    let larger = Machine::uniform(3, 2).unwrap();
    let beyond = Placement::new(&larger, vec![Pe(0), Pe(5)]).unwrap();
    assert_eq!(refused(&second, &beyond, 0), MatrixError::ColumnsTaken(Row(0)));
    matrix.check().unwrap();
    matrix.release(JobId(1)).unwrap();
    matrix.check().unwrap();
    assert_eq!(matrix.row_count(), 0);
}

/// One operation on a matrix.
#[derive(Debug, Clone)]
enum Op {
    Place { procs: u32, row: u32, fit: Fit },
    Spread { procs: u32, nodes: u32, row: u32 },
    Release(usize),
    Node { node: u32, state: NodeState },
    Advance,
}

fn ops() -> impl Strategy<Value = Op> {
    let fit =
        prop::sample::select(vec![Fit::Block, Fit::Pieces, Fit::Exact, Fit::Left, Fit::Right]);
    let up_or_not =
        prop_oneof![Just(NodeState::Up), Just(NodeState::Down), Just(NodeState::Drained)];
    prop_oneof![
        3 => (1..30u32, 0..4u32, fit).prop_map(|(procs, row, fit)| Op::Place { procs, row, fit }),
        1 => (1..30u32, 1..8u32, 0..4u32)
            .prop_map(|(procs, nodes, row)| Op::Spread { procs, nodes, row }),
        3 => any::<prop::sample::Index>().prop_map(|index| Op::Release(index.index(8))),
        2 => (0..8u32, up_or_not).prop_map(|(node, state)| Op::Node { node, state }),
        1 => Just(Op::Advance),
    ]
}

proptest! {
    #[test]
    fn the_matrix_keeps_its_invariants(
        sizes in prop::collection::vec(1..6u32, 1..8),
        ops in prop::collection::vec(ops(), 0..80),
    ) {
        let machine = Machine::new(sizes.into_iter().map(|pes| ("n", pes))).unwrap();
        let mut matrix = Matrix::new(machine, MplLimit::try_from(3).unwrap());
        let mut next_job = 0;
        // The rows in the order in which they last ran, or became live.
        let mut waiting: Vec<Row> = Vec::new();
        for op in ops {
            next_job += 1;
            let before: Vec<JobId> = matrix.jobs().collect();
            match op {
                Op::Place { procs, row, fit } => {
                    let free = matrix.row(Row(row)).map(storm_sched::MatrixRow::free_pes);
                    let free = free.unwrap_or_else(|| matrix.machine().usable_pes());
                    let placed = matrix.place(&request(next_job, procs), Row(row), fit);
                    if fit != Fit::Block && row < 3 {
                        prop_assert_eq!(placed.is_some(), procs <= free);
                    }
                }
                Op::Spread { procs, nodes, row } => {
                    let request = request(next_job, procs.max(nodes)).with_nodes(nodes);
                    let placed = matrix.place(&request, Row(row), Fit::Block);
                    prop_assert!(placed.is_none_or(|placement| placement.node_count() == nodes));
                }
                Op::Release(index) => {
                    let job = before.get(index).copied().unwrap_or(JobId(u64::MAX));
                    prop_assert_eq!(matrix.release(job).is_some(), index < before.len());
                }
                Op::Node { node, state } => {
                    matrix.set_node_state(NodeIndex(node), state);
                }
                Op::Advance => {
                    if let Some(row) = matrix.active() {
                        waiting.retain(|waits| *waits != row);
                        waiting.push(row);
                    }
                    prop_assert_eq!(matrix.advance(), waiting.first().copied());
                }
            }
            let live: Vec<Row> = matrix.rows().map(storm_sched::MatrixRow::number).collect();
            waiting.retain(|row| live.contains(row));
            waiting.extend(live.into_iter().filter(|row| !waiting.contains(row)).collect::<Vec<_>>());
            matrix.check().unwrap();
        }
    }
}
