//! Figs. 3, 4, 5 and Table 6: the cost of time-sharing for an application.

use super::laboratory::{GIVEN_UP_TIMES, Pattern};
use super::paper::{
    ALL_NODES, ALL_PES, FEASIBLE_SLOWDOWN_PERCENT, FLAT_FROM_US, GANG_NODES, GANG_PES,
    LAUNCH_NODES, LEVELS, RMS_SLICE_MS, SCORE_D_SLICE_MS, SHORTEST_US, STORM_SLICE_MS, TABLE_6,
    TIME_SLICES, USUAL_SLICE_US,
};
use super::{Axis, Bound, Chart, Exhibit, Laboratory, Method, Reproduction, Row, ms};
use crate::figures::{FigureError, GangPoint};

/// The largest change of a flat curve: the slowdown that the paper calls feasible.
const FLAT_PERCENT: f64 = FEASIBLE_SLOWDOWN_PERCENT;
/// Slices of Fig. 3 in us: the paper's range, and two below it.
const SLICES_US: [u64; 12] =
    [100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000, 8_000_000];
/// Slices of the run in which the daemons have no processor of their own.
const CROWDED_US: [u64; 7] = [200, 300, 500, 1_000, 2_000, 10_000, 50_000];
const CROWDED: &str = "wavefront on all four processors";
/// At this ratio, the jobs made no progress and were ended. The margin covers the time before the
/// first job starts, which is not counted.
const BROKEN_TIMES: f64 = GIVEN_UP_TIMES as f64 - 0.01;
/// The slices, in us, among which the shortest feasible one (Table 6) is searched for.
const FEASIBLE_US: [u64; 5] = [300, 500, 1_000, 2_000, 5_000];
/// Two jobs share the processors (Figs. 3 and 4).
const SHARED: u32 = 2;
/// The application of Figs. 4 and 5.
const BARRIERS: Pattern = Pattern::BulkSynchronous;
/// Nodes keep up with the strobes if they obey this percentage of the strobes that are due. The
/// other strobes belong to the launch and the end, and switch no job.
const OBEYED_PERCENT: f64 = 90.0;

/// The results for slices of one length.
#[derive(Clone, Copy, Debug)]
struct Slice {
    us: u64,
    /// The runtime of each of two jobs divided by the runtime of a single one. A lower bound if
    /// they were ended early.
    times: f64,
    over: bool,
    /// Percentage of the due strobes that nodes obeyed.
    obeyed_percent: f64,
}

pub(super) fn fig3(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let (mut wavefront, mut synthetic, mut crowded) = (Vec::new(), Vec::new(), Vec::new());
    for nodes in laboratory.sizes(&[GANG_NODES]) {
        let with = (nodes, GANG_PES);
        wavefront = slices(laboratory, Pattern::Wavefront, with, &SLICES_US)?;
        synthetic = slices(laboratory, Pattern::Synthetic, with, &SLICES_US)?;
        crowded = slices(laboratory, Pattern::Wavefront, (nodes, ALL_PES), &CROWDED_US)?;
    }
    let mut rows = Vec::new();
    for (name, slices) in
        [("wavefront", &wavefront), ("computing only", &synthetic), (CROWDED, &crowded)]
    {
        rows.extend(slices.iter().map(|slice| slice.slowdown(name)));
    }
    rows.extend(wavefront.iter().map(|slice| {
        let quantity = format!("slice {}, strobes obeyed of those due", written(slice.us));
        Row::simulated(quantity, slice.obeyed_percent, "%")
    }));
    if let Some(slice) = wavefront.iter().find(|slice| slice.obeyed_percent >= OBEYED_PERCENT) {
        let row = Row::simulated("shortest slice that nodes keep up with", slice.us as f64, "us");
        rows.push(row.with_paper(SHORTEST_US as f64, TIME_SLICES));
    }
    let y = Axis::linear("runtime of each of two jobs / of one alone");
    let mut chart = Chart::new(Axis::logarithmic("time slice, ms"), y);
    for (name, slices) in
        [("two wavefronts", &wavefront), ("computing only", &synthetic), (CROWDED, &crowded)]
    {
        chart = chart.curve(name, slices.iter().map(|s| (s.us as f64 / 1e3, s.times)).collect());
    }
    Ok(Reproduction::new(Exhibit::Fig3, rows)
        .fitted(Method::Simulation)
        .bounded(slice_bounds(&wavefront, &synthetic, &crowded))
        .drawn(chart)
        .note(
            "The 20 us of a switch and the 300 us that a node manager needs for a strobe are \
             fitted to this figure and its text. The application is a wavefront like SWEEP3D's, \
             not SWEEP3D, and lasts 100 slices at least: the shape of the curve is compared, not \
             the runtime.",
        )
        .note(
            "With 64 processes on 32 nodes of four processors, as in the paper, the daemons have \
             processors of their own: a node that cannot keep up misses strobes, and the runtime \
             does not follow, since the manager waits for room in the queue and leaves out \
             strobes for all nodes alike. It follows where four processes leave none: the node \
             manager takes its 300 us of every slice from one of them, and below 300 us all. The \
             paper says that daemons compete with applications then (section 2.2), and shows no \
             such run.",
        ))
}

impl Slice {
    fn slowdown(&self, name: &str) -> Row {
        let more = if self.over { "" } else { ", given up at" };
        let quantity = format!("slice {}, {name}, slowdown{more}", written(self.us));
        Row::simulated(quantity, (self.times - 1.0) * 100.0, "%")
    }
}

fn slices(
    laboratory: &mut Laboratory<'_>,
    pattern: Pattern,
    with: (u32, u32),
    lengths_us: &[u64],
) -> Result<Vec<Slice>, FigureError> {
    lengths_us.iter().map(|us| slice(laboratory, pattern, with, *us)).collect()
}

/// Compares two jobs of a pattern with a single one, with this number of processes on this number
/// of nodes.
fn slice(
    laboratory: &mut Laboratory<'_>,
    pattern: Pattern,
    with: (u32, u32),
    us: u64,
) -> Result<Slice, FigureError> {
    let alone = laboratory.gang(pattern, with, 1, us)?.runtime;
    let shared = laboratory.gang(pattern, with, SHARED, us)?;
    let times = ms(shared.runtime) / ms(alone);
    Ok(Slice { us, times, over: shared.over, obeyed_percent: obeyed_percent(&shared) })
}

/// The curve is flat from 2 ms. Below 300 us, nodes miss strobes; jobs make no progress if the node
/// manager has only their processors.
fn slice_bounds(wavefront: &[Slice], synthetic: &[Slice], crowded: &[Slice]) -> Vec<Bound> {
    let flat = |name: &str, slices: &[Slice]| {
        let flat = slices.iter().filter(|slice| slice.us >= FLAT_FROM_US);
        let name = format!("{name}, runtimes from {} on differ by", written(FLAT_FROM_US));
        Bound::at_most(name, spread_percent(flat.map(|slice| slice.times)), FLAT_PERCENT, "%")
    };
    let below = |slices: &[Slice]| {
        slices.iter().filter(|slice| slice.us < SHORTEST_US).copied().collect::<Vec<_>>()
    };
    let obeyed = below(wavefront).iter().map(|slice| slice.obeyed_percent).reduce(f64::max);
    let times = below(crowded).iter().map(|slice| slice.times).reduce(f64::min);
    let name = |what: &str| format!("{what} below {}", written(SHORTEST_US));
    vec![
        flat("wavefront", wavefront),
        flat("computing only", synthetic),
        Bound::at_most(name("strobes obeyed"), obeyed, OBEYED_PERCENT, "%"),
        Bound::at_least(name(&format!("{CROWDED}, runtime")), times, BROKEN_TIMES, "times"),
    ]
}

pub(super) fn fig4(laboratory: &mut Laboratory<'_>) -> Result<Reproduction, FigureError> {
    let (mut rows, mut bounds) = (Vec::new(), Vec::new());
    let mut chart = Chart::new(Axis::linear("nodes"), Axis::linear("runtime / jobs, ms"));
    for jobs in [1, SHARED] {
        let mut points = Vec::new();
        for nodes in laboratory.sizes(&LAUNCH_NODES) {
            let runtime_ms =
                ms(laboratory.gang(BARRIERS, (nodes, GANG_PES), jobs, USUAL_SLICE_US)?.runtime);
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
                ms(laboratory.gang(BARRIERS, (nodes, GANG_PES), jobs, USUAL_SLICE_US)?.runtime);
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
        Row::quoted("RMS, 15 nodes", "ms").with_paper(RMS_SLICE_MS, TABLE_6),
        Row::quoted("SCore-D, 64 nodes", "ms").with_paper(SCORE_D_SLICE_MS, TABLE_6),
    ];
    for nodes in laboratory.sizes(&[ALL_NODES]) {
        let mut shortest_us = None;
        for slice_us in FEASIBLE_US {
            let slice = slice(laboratory, Pattern::Wavefront, (nodes, GANG_PES), slice_us)?;
            let slowdown_percent = (slice.times - 1.0) * 100.0;
            let quantity = format!("STORM, {nodes} nodes, slowdown at {}", written(slice_us));
            rows.push(Row::simulated(quantity, slowdown_percent, "%").calibrated());
            if shortest_us.is_none() && slowdown_percent <= FEASIBLE_SLOWDOWN_PERCENT {
                shortest_us = Some(slice_us);
            }
        }
        if let Some(slice_us) = shortest_us {
            let row = Row::simulated(format!("STORM, {nodes} nodes"), slice_us as f64 / 1e3, "ms");
            rows.push(row.with_paper(STORM_SLICE_MS, TABLE_6).calibrated());
        }
    }
    Ok(Reproduction::new(Exhibit::Table6, rows).note(
        "Of RMS and SCore-D nothing is simulated here. STORM's is the shortest of the slices shown \
         with a slowdown of 2 % or less; the paper shows one without an observable slowdown. The \
         cost of a switch is fitted to Fig. 3.",
    ))
}

fn obeyed_percent(point: &GangPoint) -> f64 {
    // A run that is shorter than a slice needs no strobe.
    if point.strobes_due == 0 {
        return 100.0;
    }
    (point.strobes as f64 / point.strobes_due as f64 * 100.0).min(100.0)
}

/// Holds if the figure has all points, and they are about equal.
fn flat(name: String, points: &[(f64, f64)], all: &[u32]) -> Bound {
    let spread = spread_percent(points.iter().map(|point| point.1));
    Bound::at_most(name, spread.filter(|_| points.len() == all.len()), FLAT_PERCENT, "%")
}

/// By how many percent the greatest value exceeds the least.
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
        let slices = |points: &[(u64, f64, f64)]| {
            let slice =
                |&(us, times, obeyed_percent)| Slice { us, times, over: true, obeyed_percent };
            points.iter().map(slice).collect::<Vec<_>>()
        };
        let verdicts = |of: [&[Slice]; 3]| {
            slice_bounds(of[0], of[1], of[2]).into_iter().map(|b| b.verdict).collect::<Vec<_>>()
        };
        let flat = slices(&[
            (200, 1.9, 60.0),
            (300, 1.1, 99.0),
            (2_000, 1.01, 100.0),
            (50_000, 1.0, 100.0),
        ]);
        let bent = slices(&[(200, 1.9, 99.0), (2_000, 1.03, 100.0), (50_000, 1.0, 100.0)]);
        let broken = slices(&[(200, 3.0, 60.0), (300, 1.5, 90.0)]);
        assert_eq!(verdicts([&flat, &flat, &broken]), [Verdict::Kept; 4]);
        assert_eq!(verdicts([&bent, &bent, &flat]), [Verdict::Missed; 4]);
        assert_eq!(verdicts([&[], &[], &[]]), [Verdict::Untested; 4]);
    }
}
