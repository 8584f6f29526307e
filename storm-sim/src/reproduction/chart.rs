//! Charts as data: curves over axes. The caller draws them.

use serde::Serialize;

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves to draw.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: &'static str,
    /// Whether the axis is logarithmic. If so, all its values are above 0.
    pub logarithmic: bool,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// Whether the points are joined by a line.
    pub joined: bool,
    /// Where they are.
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// An empty chart.
    pub fn new(x: Axis, y: Axis) -> Chart {
        Chart { x, y, curves: Vec::new() }
    }

    /// Adds a curve.
    #[must_use]
    pub fn curve(self, name: impl Into<String>, points: Vec<(f64, f64)>) -> Chart {
        self.with(name.into(), true, points)
    }

    /// Adds marks.
    #[must_use]
    pub fn marks(self, name: impl Into<String>, points: Vec<(f64, f64)>) -> Chart {
        self.with(name.into(), false, points)
    }

    /// Leaves out points that cannot be on an axis.
    fn with(mut self, name: String, joined: bool, mut points: Vec<(f64, f64)>) -> Chart {
        let fits = |axis: Axis, value: f64| value.is_finite() && (!axis.logarithmic || value > 0.0);
        points.retain(|&(x, y)| fits(self.x, x) && fits(self.y, y));
        if !points.is_empty() {
            self.curves.push(Curve { name, joined, points });
        }
        self
    }
}

impl Axis {
    /// From 0 in equal steps.
    pub const fn linear(label: &'static str) -> Axis {
        Axis { label, logarithmic: false }
    }

    /// In steps of equal ratio.
    pub const fn logarithmic(label: &'static str) -> Axis {
        Axis { label, logarithmic: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_a_logarithm_are_not_drawn() {
        let (x, y) = (Axis::logarithmic("nodes"), Axis::linear("seconds"));
        let chart = Chart::new(x, y).curve("a", vec![(0.0, 1.0), (1.0, -1.0), (2.0, f64::NAN)]);
        assert_eq!(chart.curves[0].points, [(1.0, -1.0)]);
        assert!(Chart::new(x, y).marks("b", Vec::new()).curves.is_empty());
    }
}
