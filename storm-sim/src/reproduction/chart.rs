//! What there is to draw: curves over axes. Drawing is for whoever has a canvas.

use serde::Serialize;

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: &'static str,
    /// Whether it is logarithmic; no value on it is then 0 or less.
    pub logarithmic: bool,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Joined by a line, or marked one by one.
    pub joined: bool,
    /// Where they are.
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// An empty one.
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

    /// What cannot be on an axis is left out.
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
    fn what_has_no_logarithm_is_not_drawn() {
        let (x, y) = (Axis::logarithmic("nodes"), Axis::linear("seconds"));
        let chart = Chart::new(x, y).curve("a", vec![(0.0, 1.0), (1.0, -1.0), (2.0, f64::NAN)]);
        assert_eq!(chart.curves[0].points, [(1.0, -1.0)]);
        assert!(Chart::new(x, y).marks("b", Vec::new()).curves.is_empty());
    }
}
