//! Figs. 3, 4, 5 and Table 6: what time-sharing costs an application.

use super::laboratory::Pattern;
use super::paper::{
    ALL_NODES, FEASIBLE_SLOWDOWN_PERCENT, FLAT_FROM_US, GANG_NODES, LAUNCH_NODES, LEVELS,
    RMS_SLICE_MS, SCORE_D_SLICE_MS, SHORTEST_US, STORM_SLICE_MS, TABLE_6, TIME_SLICES,
    USUAL_SLICE_US,
};
use super::{Axis, Bound, Chart, Exhibit, Laboratory, Reproduction, Row, ms};
use crate::figures::{FigureError, GangPoint};

/// How much a curve may move to be flat: the slowdown that the paper calls feasible.
const FLAT_PERCENT: f64 = FEASIBLE_SLOWDOWN_PERCENT;
/// Slices of Fig. 3 in us: the paper's range, and two below it.
const SLICES_US: [u64; 12] =
    [100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000, 8_000_000];
/// Slices among which Table 6's is sought, in us.
const FEASIBLE_US: [u64; 5] = [300, 500, 1_000, 2_000, 5_000];
/// Two jobs share the processors (Figs. 3 and 4).
const SHARED: u32 = 2;
/// Nodes keep up with the strobes if they obey so many percent of those that are
/// due: those of the launch and of the end move no job.
const OBEYED_PERCENT: f64 = 90.0;

pub(super) fn fig3(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let (mut rows, mut runtimes, mut obeyed) = (Vec::new(), Vec::new(), Vec::new());
    for nodes in laboratory.sizes(&[GANG_NODES]) {
        for slice_us in SLICES_US {
            let (slowdown_percent, point) = slowdown(laboratory, nodes, slice_us)?;
            let slice = written(slice_us);
            let row = Row::simulated(format!("slice {slice}, slowdown"), slowdown_percent, "%");
            rows.push(row.calibrated());
            runtimes.push((slice_us as f64 / 1e3, 1.0 + slowdown_percent / 100.0));
            let percent = obeyed_percent(&point);
            let quantity = format!("slice {slice}, strobes obeyed of those due");
            rows.push(Row::simulated(quantity, percent, "%").calibrated());
            obeyed.push((slice_us, percent));
        }
    }
    let bounds = slice_bounds(&runtimes, &obeyed);
    let shortest = obeyed.iter().find(|point| point.1 >= OBEYED_PERCENT);
    if let Some(&(slice_us, _)) = shortest {
        let row = Row::simulated("shortest slice that nodes keep up with", slice_us as f64, "us");
        rows.push(row.beside(SHORTEST_US as f64, TIME_SLICES).calibrated());
    }
    let y = Axis::linear("runtime of each of two jobs / of one alone");
    let chart = Chart::new(Axis::logarithmic("time slice, ms"), y);
    Ok(Reproduction::new(Exhibit::Fig3, rows)
        .bounded(bounds)
        .drawn(chart.curve("two wavefront jobs", runtimes))
        .note(
            "The cost of a switch and the 300 us that a node needs for a strobe are fitted to \
             this figure and its text. The application is a wavefront like SWEEP3D's, not \
             SWEEP3D, and lasts 100 slices at least: the shape of the curve is compared, not the \
             runtime. Nodes that cannot keep up with strobes skip some of them.",
        ))
}

/// By how much each of two wavefront jobs takes longer than one alone, in percent.
fn slowdown(
    laboratory: &mut Laboratory<'_>,
    nodes: u32,
    slice_us: u64,
) -> Result<(f64, GangPoint), FigureError> {
    let alone = laboratory.gang(Pattern::Wavefront, nodes, 1, slice_us)?.runtime;
    let shared = laboratory.gang(Pattern::Wavefront, nodes, SHARED, slice_us)?;
    Ok(((ms(shared.runtime) / ms(alone) - 1.0) * 100.0, shared))
}

/// Flat from 2 ms, and broken down below 300 us.
fn slice_bounds(runtimes: &[(f64, f64)], obeyed: &[(u64, f64)]) -> Vec<Bound> {
    let flat = runtimes.iter().filter(|point| point.0 * 1e3 >= FLAT_FROM_US as f64);
    let below = obeyed.iter().filter(|point| point.0 < SHORTEST_US);
    let worst = below.map(|point| point.1).reduce(f64::max);
    vec![
        Bound::at_most(
            format!("runtimes from {} on differ by", written(FLAT_FROM_US)),
            spread_percent(flat.map(|point| point.1)),
            FLAT_PERCENT,
            "%",
        ),
        Bound::at_most(
            format!("strobes obeyed below {}", written(SHORTEST_US)),
            worst,
            OBEYED_PERCENT,
            "%",
        ),
    ]
}

pub(super) fn fig4(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let (mut rows, mut bounds) = (Vec::new(), Vec::new());
    let mut chart = Chart::new(Axis::linear("nodes"), Axis::linear("runtime / jobs, ms"));
    for jobs in [1, SHARED] {
        let mut points = Vec::new();
        for nodes in laboratory.sizes(&LAUNCH_NODES) {
            let runtime_ms =
                ms(laboratory.gang(Pattern::BulkSynchronous, nodes, jobs, USUAL_SLICE_US)?.runtime);
            let quantity = format!("{nodes} nodes, jobs at once: {jobs}");
            rows.push(Row::simulated(quantity, runtime_ms, "ms"));
            points.push((f64::from(nodes), runtime_ms));
        }
        bounds.push(flat(
            format!("runtimes with {jobs} at once differ by"),
            &points,
            &LAUNCH_NODES,
        ));
        chart = chart.curve(format!("jobs at once: {jobs}"), points);
    }
    Ok(Reproduction::new(Exhibit::Fig4, rows).bounded(bounds).drawn(chart).note(
        "The jobs are bulk-synchronous: the pipeline of a modelled wavefront takes longer the more \
         ranks it crosses, whatever the scheduler does.",
    ))
}

pub(super) fn fig5(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for nodes in laboratory.sizes(&[GANG_NODES]) {
        for jobs in LEVELS {
            let runtime_ms =
                ms(laboratory.gang(Pattern::BulkSynchronous, nodes, jobs, USUAL_SLICE_US)?.runtime);
            rows.push(Row::simulated(format!("jobs at once: {jobs}"), runtime_ms, "ms"));
            points.push((f64::from(jobs), runtime_ms));
        }
    }
    let bound = flat("runtimes differ by".to_owned(), &points, &LEVELS);
    let chart = Chart::new(Axis::linear("jobs at once"), Axis::linear("runtime / jobs, ms"));
    Ok(Reproduction::new(Exhibit::Fig5, rows)
        .bounded([bound])
        .drawn(chart.curve("bulk-synchronous jobs", points))
        .note("Caches are not modelled: that a job finds them cold costs nothing here."))
}

pub(super) fn table6(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let mut rows = vec![
        Row::quoted("RMS, 15 nodes", "ms").beside(RMS_SLICE_MS, TABLE_6),
        Row::quoted("SCore-D, 64 nodes", "ms").beside(SCORE_D_SLICE_MS, TABLE_6),
    ];
    for nodes in laboratory.sizes(&[ALL_NODES]) {
        let mut shortest_us = None;
        for slice_us in FEASIBLE_US {
            let (slowdown_percent, _) = slowdown(laboratory, nodes, slice_us)?;
            let quantity = format!("STORM, {nodes} nodes, slowdown at {}", written(slice_us));
            rows.push(Row::simulated(quantity, slowdown_percent, "%").calibrated());
            if shortest_us.is_none() && slowdown_percent <= FEASIBLE_SLOWDOWN_PERCENT {
                shortest_us = Some(slice_us);
            }
        }
        if let Some(slice_us) = shortest_us {
            let row = Row::simulated(format!("STORM, {nodes} nodes"), slice_us as f64 / 1e3, "ms");
            rows.push(row.beside(STORM_SLICE_MS, TABLE_6).calibrated());
        }
    }
    Ok(Reproduction::new(Exhibit::Table6, rows).note(
        "Of RMS and SCore-D nothing is simulated here. STORM's is the shortest of the slices shown \
         with a slowdown of 2 % or less; the paper shows one without an observable slowdown. The \
         cost of a switch is fitted to Fig. 3.",
    ))
}

fn obeyed_percent(point: &GangPoint) -> f64 {
    // A slice longer than the run asks for none.
    if point.strobes_due == 0 {
        return 100.0;
    }
    (point.strobes as f64 / point.strobes_due as f64 * 100.0).min(100.0)
}

/// All points of the figure are there and alike.
fn flat(name: String, points: &[(f64, f64)], all: &[u32]) -> Bound {
    let spread = spread_percent(points.iter().map(|point| point.1));
    Bound::at_most(name, spread.filter(|_| points.len() == all.len()), FLAT_PERCENT, "%")
}

/// By how much the greatest is above the least.
fn spread_percent(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let least = values.clone().reduce(f64::min)?;
    Some((values.reduce(f64::max)? / least - 1.0) * 100.0)
}

fn written(slice_us: u64) -> String {
    if slice_us < 1_000 { format!("{slice_us} us") } else { format!("{} ms", slice_us / 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::Verdict;

    #[test]
    fn a_curve_that_bends_misses_its_bound() {
        let points = [(1.0, 100.0), (2.0, 101.9)];
        assert_eq!(flat(String::new(), &points, &[1, 2]).verdict, Verdict::Kept);
        let bent = [(1.0, 100.0), (2.0, 102.1)];
        assert_eq!(flat(String::new(), &bent, &[1, 2]).verdict, Verdict::Missed);
        assert_eq!(flat(String::new(), &points, &[1, 2, 4]).verdict, Verdict::Untested);
    }

    #[test]
    fn time_slices_must_be_flat_above_and_break_down_below() {
        let verdicts = |runtimes: &[(f64, f64)], obeyed: &[(u64, f64)]| {
            slice_bounds(runtimes, obeyed).into_iter().map(|b| b.verdict).collect::<Vec<_>>()
        };
        let flat = [(0.1, 900.0), (2.0, 101.0), (50.0, 100.0)];
        let broken = [(200, 60.0), (300, 99.0)];
        assert_eq!(verdicts(&flat, &broken), [Verdict::Kept, Verdict::Kept]);
        let bent = [(2.0, 103.0), (50.0, 100.0)];
        let unbroken = [(200, 99.0)];
        assert_eq!(verdicts(&bent, &unbroken), [Verdict::Missed, Verdict::Missed]);
        assert_eq!(verdicts(&[], &[]), [Verdict::Untested, Verdict::Untested]);
    }
}
