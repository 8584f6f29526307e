//! Fig. 7: the latency of a barrier, which equals that of a COMPARE-AND-WRITE.

use super::paper::{BARRIER, BARRIER_GROWTH_US, BARRIER_NODES};
use super::{Axis, Bound, Chart, Exhibit, Laboratory, Method, Reproduction, Row};
use crate::figures::FigureError;

/// The figure's nodes: powers of 4 up to those of ASCI Q.
const NODES: [u32; 6] = [1, 4, 16, 64, 256, BARRIER_NODES];

pub(super) fn fig7(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let mut points = Vec::new();
    for nodes in laboratory.sizes(&NODES) {
        let latency_us = laboratory.barrier(nodes)?.latency.as_secs_f64() * 1e6;
        points.push((f64::from(nodes), latency_us));
    }
    let mut rows: Vec<Row> = points
        .iter()
        .map(|&(nodes, latency_us)| Row::simulated(format!("{nodes} nodes"), latency_us, "us"))
        .collect();
    let at = |wanted: u32| points.iter().find(|point| point.0 == f64::from(wanted));
    let growth_us = at(BARRIER_NODES).zip(at(NODES[0])).map(|(last, first)| last.1 - first.1);
    let quantity = format!("growth over {BARRIER_NODES} nodes");
    if let Some(growth_us) = growth_us {
        let row = Row::simulated(&*quantity, growth_us, "us");
        rows.push(row.with_paper(BARRIER_GROWTH_US, BARRIER).calibrated());
    }
    let chart = Chart::new(Axis::logarithmic("nodes"), Axis::linear("latency, us"));
    Ok(Reproduction::new(Exhibit::Fig7, rows)
        .fitted(Method::Simulation)
        .bounded([Bound::rounds_to(quantity, growth_us, BARRIER_GROWTH_US, "us")])
        .drawn(chart.curve("simulated COMPARE-AND-WRITE", points))
        .note(
            "The profile's cost of each doubling is fitted to this figure's growth, and the \
             latency of a single node is an assumption of the profile.",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::{Effort, Verdict};

    #[test]
    fn rows_without_a_simulation_do_not_hold() {
        let mut watch = |_: &str| {};
        let mut laboratory = Laboratory::new(Effort { max_nodes: 16, seed: 1 }, &mut watch);
        let figure = fig7(&mut laboratory).expect("three small machines");
        assert_eq!(figure.rows.len(), 3);
        assert_eq!(figure.bounds[0].verdict, Verdict::Untested);
    }
}
