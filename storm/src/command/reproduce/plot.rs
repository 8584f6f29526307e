//! A chart as an SVG document.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, EmptyElement, IntoDrawingArea, IntoFont, IntoLogRange,
    LineSeries, Palette, Palette99, PathElement, SVGBackend, SeriesLabelPosition, WHITE,
};
use std::error::Error;
use storm_sim::reproduction::{Axis, Chart, Curve};

/// Size of a plot, its margins, and its markers in pixels.
const SIZE: (u32, u32) = (860, 520);
const MARGIN: u32 = 12;
const LABELS: (u32, u32) = (44, 64);
const TITLE: u32 = 20;
const DOT: i32 = 3;
const LEGEND_LINE: i32 = 18;
/// Room above the highest value, and at both ends of a logarithmic axis.
const HEADROOM: f64 = 1.1;

type Drawn<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Draws the chart, with the title above.
pub(super) fn svg(title: &str, chart: &Chart) -> Result<String, PlotError> {
    let (x, y) = (range(chart, chart.x, |point| point.0), range(chart, chart.y, |point| point.1));
    let drawn = match (chart.x.logarithmic, chart.y.logarithmic) {
        (true, true) => draw(title, chart, (x.0..x.1).log_scale(), (y.0..y.1).log_scale()),
        (true, false) => draw(title, chart, (x.0..x.1).log_scale(), y.0..y.1),
        (false, true) => draw(title, chart, x.0..x.1, (y.0..y.1).log_scale()),
        (false, false) => draw(title, chart, x.0..x.1, y.0..y.1),
    };
    drawn.map_err(PlotError)
}

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the plot cannot be drawn")]
pub(super) struct PlotError(#[source] Box<dyn Error + Send + Sync>);

fn draw<X, Y>(title: &str, chart: &Chart, x: X, y: Y) -> Drawn<String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut canvas = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", TITLE).into_font())
            .margin(MARGIN)
            .x_label_area_size(LABELS.0)
            .y_label_area_size(LABELS.1)
            .build_cartesian_2d(x, y)?;
        canvas
            .configure_mesh()
            .x_desc(chart.x.label)
            .y_desc(chart.y.label)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .light_line_style(WHITE)
            .draw()?;
        for (index, curve) in chart.curves.iter().enumerate() {
            let Curve { name, joined, points } = curve;
            let color = if *joined { Palette99::pick(index).to_rgba() } else { BLACK.to_rgba() };
            let dots = points.iter().map(|&at| Circle::new(at, DOT, color.filled()));
            canvas.draw_series(dots)?;
            let series = if *joined {
                canvas
                    .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            } else {
                canvas.draw_series(points.iter().map(|&at| EmptyElement::at(at)))?
            };
            if name.is_empty() {
                continue;
            }
            let line = if *joined { LEGEND_LINE } else { 0 };
            series.label(name.as_str()).legend(move |(x, y)| {
                EmptyElement::at((x, y))
                    + PathElement::new([(0, 0), (line, 0)], color.stroke_width(2))
                    + Circle::new((LEGEND_LINE / 2, 0), DOT, color.filled())
            });
        }
        canvas
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// The range of all curves' values, with some room.
fn range(chart: &Chart, axis: Axis, value: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = || chart.curves.iter().flat_map(|curve| curve.points.iter().map(value));
    let least = values().reduce(f64::min).unwrap_or(1.0);
    let greatest = values().reduce(f64::max).unwrap_or(1.0);
    if axis.logarithmic {
        (least / HEADROOM, greatest * HEADROOM)
    } else {
        // From zero, so that a flat curve looks flat.
        (least.min(0.0), (greatest * HEADROOM).max(f64::MIN_POSITIVE))
    }
}

/// A number of an axis, without needless zeros.
fn short(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e6) {
        return format!("{value:e}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_axes_is_drawn_and_names_are_escaped() {
        for x in [Axis::linear("x < y"), Axis::logarithmic("nodes")] {
            for y in [Axis::linear("ms"), Axis::logarithmic("s")] {
                let chart = Chart::new(x, y)
                    .curve("send & execute", vec![(1.0, 0.5), (64.0, 90.0)])
                    .marks("", vec![(16.0, 40.0)]);
                let svg = svg("launch <script>", &chart).expect("it is drawn");
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
                assert!(svg.contains("send &amp; execute"), "{svg}");
                assert!(!svg.contains("<script>"), "{svg}");
            }
        }
    }

    #[test]
    fn an_empty_chart_is_drawn_too() {
        let chart = Chart::new(Axis::logarithmic("nodes"), Axis::linear("ms"));
        assert!(svg("nothing", &chart).is_ok());
    }
}
