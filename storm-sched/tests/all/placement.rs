//! The places of jobs that ask for more than PEs, as far as users can rely on them.

use storm_sched::{
    Fit, JobId, JobRequest, Machine, Matrix, MatrixError, MplLimit, NodeMemory, NodeSpec, Pe,
    Placement, Row,
};

const ROW: Row = Row(0);

/// Nodes of 4, 2 and 4 PEs; the last has feature gpu.
fn matrix(rows: u32) -> Matrix {
    let nodes = [
        NodeSpec::new("a", 4).with_memory(10),
        NodeSpec::new("b", 2).with_memory(10),
        NodeSpec::new("c", 4).with_memory(20).with_features(["gpu"]),
    ];
    Matrix::new(Machine::of_nodes(nodes).unwrap(), MplLimit::try_from(rows).unwrap())
}

fn request(job: u64, procs: u32) -> JobRequest {
    JobRequest::new(JobId(job), procs)
}

/// For each node, the columns of each rank there.
fn dealt(placement: &Placement) -> Vec<(u32, Vec<u32>)> {
    let columns = |pes: &[storm_sched::Pe]| pes.iter().map(|pe| pe.0).collect();
    placement.ranks().map(|(node, pes)| (node.0, columns(pes))).collect()
}

#[test]
fn each_process_has_its_pes_on_one_node() {
    let mut matrix = matrix(1);
    let placed = matrix.place(&request(1, 4).with_pes_per_proc(2), ROW, Fit::Exact).unwrap();
    assert_eq!(dealt(&placed), [(0, vec![0, 1, 2, 3]), (1, vec![4, 5]), (2, vec![6, 7])]);
    let wide = request(2, 1).with_pes_per_proc(3);
    assert_eq!(matrix.place(&wide, ROW, Fit::Exact), None, "two PEs are left");
    matrix.check().unwrap();
    matrix.release(JobId(1));
    let placed = matrix.place(&wide, ROW, Fit::Block).unwrap();
    assert_eq!(dealt(&placed), [(0, vec![0, 1, 2])]);
}

#[test]
fn no_node_gets_more_processes_than_are_allowed() {
    let placed = matrix(1).place(&request(1, 5).with_procs_per_node(2), ROW, Fit::Block).unwrap();
    assert_eq!(dealt(&placed), [(0, vec![0, 1]), (1, vec![4, 5]), (2, vec![6])]);
}

#[test]
fn nodes_of_a_job_alone_are_held_whole() {
    let mut matrix = matrix(2);
    let gpu = request(1, 1).with_constraint("gpu".parse().unwrap());
    matrix.place(&gpu, ROW, Fit::Exact).unwrap();
    let alone = request(2, 5).with_exclusive_nodes();
    let placed = matrix.place(&alone, ROW, Fit::Exact).unwrap();
    assert_eq!(dealt(&placed), [(0, vec![0, 1, 2, 3]), (1, vec![4])]);
    assert_eq!(matrix.columns(JobId(2)).map(|columns| columns.len()), Some(6));
    assert_eq!(matrix.place(&request(3, 4), ROW, Fit::Exact), None, "3 PEs are left");
    assert!(matrix.place(&request(3, 4), Row(1), Fit::Exact).is_some(), "rows take turns");
    matrix.check().unwrap();
    // A restarted manager gives the job its whole nodes back.
    matrix.release(JobId(2));
    let beside = Placement::new(matrix.machine(), vec![Pe(5)]).unwrap();
    matrix.restore(&request(4, 1), &beside, ROW).unwrap();
    assert_eq!(matrix.restore(&alone, &placed, ROW), Err(MatrixError::ColumnsTaken(ROW)));
    matrix.release(JobId(4));
    matrix.restore(&alone, &placed, ROW).unwrap();
    assert_eq!(matrix.columns(JobId(2)).map(|columns| columns.len()), Some(6));
    matrix.check().unwrap();
}

#[test]
fn memory_is_held_over_all_rows_until_the_job_is_gone() {
    let mut matrix = matrix(3);
    let per_node = |job, bytes| request(job, 1).with_node_memory(NodeMemory::Bytes(bytes));
    let node_of = |placed: Option<Placement>| placed.map(|placed| dealt(&placed)[0].0);
    assert_eq!(node_of(matrix.place(&per_node(1, 8), ROW, Fit::Block)), Some(0));
    assert_eq!(node_of(matrix.place(&per_node(2, 8), Row(1), Fit::Block)), Some(1));
    assert_eq!(node_of(matrix.place(&per_node(3, 15), Row(1), Fit::Block)), Some(2));
    assert_eq!(node_of(matrix.place(&per_node(4, 6), Row(2), Fit::Block)), None);
    let all = request(5, 1).with_node_memory(NodeMemory::Whole);
    assert_eq!(matrix.place(&all, Row(2), Fit::Block), None);
    matrix.release(JobId(2));
    assert_eq!(node_of(matrix.place(&all, Row(2), Fit::Block)), Some(1));
    // Two processes have two PEs each at 2 bytes a PE: 4 bytes a process, and 5 are free on c.
    let per_pe = request(6, 1).with_pes_per_proc(2).with_memory(2);
    assert_eq!(node_of(matrix.place(&per_pe, ROW, Fit::Block)), Some(2));
    let mut again = per_pe.clone();
    again.id = JobId(7);
    assert_eq!(matrix.place(&again, ROW, Fit::Block), None);
    matrix.check().unwrap();
}
