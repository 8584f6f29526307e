//! A schedule as an SVG document: utilisation and queue over time. If there are few enough jobs, it
//! also shows which job ran where.

use crate::failure::{EXIT_USAGE, Failure};
use plotters::coord::Shift;
use plotters::prelude::{
    BLUE, ChartBuilder, Color, DrawingArea, IntoDrawingArea, IntoFont, Palette, Palette99, RED,
    RGBColor, Rectangle, SVGBackend, WHITE,
};
use std::error::Error;
use std::path::Path;
use storm_replay::{Schedule, Trace};
use storm_sched::SchedTime;

/// Most jobs that are drawn one by one.
const MAX_DRAWN_JOBS: usize = 5_000;
/// Points of a curve, about one per pixel.
const BINS: usize = 800;
/// Size of the plot and of its parts in pixels.
const WIDTH: u32 = 960;
const CURVE_HEIGHT: u32 = 220;
const JOBS_HEIGHT: u32 = 420;
const MARGIN: u32 = 10;
const LABELS: (u32, u32) = (40, 64);
const TITLE: u32 = 18;
/// Room above the highest value.
const HEADROOM: f64 = 1.05;
/// How opaque jobs are, as rows of a matrix overlap.
const OPACITY: f64 = 0.6;
const HOUR_S: f64 = 3_600.0;

type Drawn<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the plot cannot be drawn")]
struct PlotError(#[source] Box<dyn Error + Send + Sync>);

/// Refuses a file name that is not a plot's.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let svg = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    match path {
        Some(path) if !svg(path) => {
            let message = format!("{} cannot be the name of a plot", path.display());
            Err(Failure::new("usage", message)
                .hint("the name of a plot ends in .svg")
                .exit(EXIT_USAGE))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether the jobs of a trace are few enough to be drawn one by one.
pub(super) fn draws_jobs(trace: &Trace) -> bool {
    trace.jobs().len() <= MAX_DRAWN_JOBS
}

/// Draws a schedule.
pub(super) fn svg(title: &str, trace: &Trace, schedule: &Schedule) -> Result<String, Failure> {
    draw(title, trace, schedule).map_err(|error| Failure::of("plot", &PlotError(error)))
}

fn draw(title: &str, trace: &Trace, schedule: &Schedule) -> Drawn<String> {
    let jobs = draws_jobs(trace);
    let height = 2 * CURVE_HEIGHT + if jobs { JOBS_HEIGHT } else { 0 };
    let time = Time::of(trace, schedule);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, rest) = area.split_vertically(CURVE_HEIGHT);
        let (middle, below) = rest.split_vertically(CURVE_HEIGHT);
        let (busy, waiting) = (busy(trace, schedule, &time), waiting(trace, schedule, &time));
        let longest = waiting.iter().copied().fold(1.0, f64::max);
        let pes = f64::from(trace.pes());
        curve(&above, title, ("processors busy", pes), BLUE, &time, &busy)?;
        curve(&middle, "", ("jobs waiting", longest), RED, &time, &waiting)?;
        if jobs {
            draw_placements(&below, trace, schedule, &time)?;
        }
        area.present()?;
    }
    Ok(text)
}

/// The time range of the plot, in hours.
struct Time {
    first: SchedTime,
    hours: f64,
}

impl Time {
    fn of(trace: &Trace, schedule: &Schedule) -> Time {
        let first = trace.jobs().first().map_or(SchedTime::ZERO, |job| job.submit);
        let last = schedule.starts.iter().map(|start| start.end).max().unwrap_or(first);
        // An axis must not have length 0.
        let hours = (last.since(first).as_secs_f64() / HOUR_S).max(f64::MIN_POSITIVE);
        Time { first, hours }
    }

    fn hours(&self, time: SchedTime) -> f64 {
        time.since(self.first).as_secs_f64() / HOUR_S
    }

    /// The mean of a sum of weights in each of [`BINS`] equal time bins. Each weight holds from one
    /// time to another.
    fn means(&self, held: impl Iterator<Item = (SchedTime, SchedTime, f64)>) -> Vec<f64> {
        // Changes at the beginning of each bin, and contributions to a single bin.
        let mut steps = vec![0.0; BINS + 1];
        let mut means = vec![0.0; BINS];
        let bin = |time: SchedTime| (self.hours(time) / self.hours * BINS as f64).max(0.0);
        for (from, to, weight) in held {
            let (from, to) = (bin(from), bin(to).min(BINS as f64));
            let (first, last) = ((from as usize).min(BINS - 1), (to as usize).min(BINS - 1));
            if first == last {
                means[first] += weight * (to - from);
                continue;
            }
            means[first] += weight * ((first + 1) as f64 - from);
            means[last] += weight * (to - last as f64);
            steps[first + 1] += weight;
            steps[last] -= weight;
        }
        let mut level = 0.0;
        for (mean, step) in means.iter_mut().zip(&steps) {
            level += step;
            // Rounding may have made the sum slightly negative.
            *mean = (*mean + level).max(0.0);
        }
        means
    }
}

/// Processors in use.
fn busy(trace: &Trace, schedule: &Schedule, time: &Time) -> Vec<f64> {
    let held = schedule.busy.iter().map(|busy| (busy.from, busy.to, busy.mean_pes()));
    let mut means = time.means(held);
    // Rounding may have made the sum slightly too large.
    means.iter_mut().for_each(|mean| *mean = mean.min(f64::from(trace.pes())));
    means
}

fn waiting(trace: &Trace, schedule: &Schedule, time: &Time) -> Vec<f64> {
    time.means(schedule.starts.iter().filter_map(|start| {
        let job = trace.job(start.job)?;
        Some((job.submit, start.start, 1.0))
    }))
}

fn curve(
    area: &Area<'_>,
    title: &str,
    (label, highest): (&str, f64),
    color: RGBColor,
    time: &Time,
    means: &[f64],
) -> Drawn<()> {
    let highest = highest * HEADROOM;
    let mut canvas = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE).into_font())
        .margin(MARGIN)
        .x_label_area_size(LABELS.0)
        .y_label_area_size(LABELS.1)
        .build_cartesian_2d(0.0..time.hours, 0.0..highest)?;
    canvas.configure_mesh().x_desc("hours").y_desc(label).light_line_style(WHITE).draw()?;
    let wide = time.hours / BINS as f64;
    canvas.draw_series(means.iter().enumerate().map(|(bin, mean)| {
        let from = bin as f64 * wide;
        Rectangle::new([(from, 0.0), (from + wide, *mean)], color.mix(OPACITY).filled())
    }))?;
    Ok(())
}

fn draw_placements(area: &Area<'_>, trace: &Trace, schedule: &Schedule, time: &Time) -> Drawn<()> {
    let mut canvas = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(LABELS.0)
        .y_label_area_size(LABELS.1)
        .build_cartesian_2d(0.0..time.hours, 0.0..f64::from(trace.pes()))?;
    canvas.configure_mesh().x_desc("hours").y_desc("processor").light_line_style(WHITE).draw()?;
    for start in &schedule.starts {
        let color = Palette99::pick(start.job.0 as usize).mix(OPACITY).filled();
        for (from, to, columns) in start.stays() {
            let (from, to) = (time.hours(from), time.hours(to));
            canvas.draw_series(columns.ranges().iter().map(|range| {
                let corners = [(from, f64::from(range.start)), (to, f64::from(range.end))];
                Rectangle::new(corners, color)
            }))?;
        }
    }
    Ok(())
}
