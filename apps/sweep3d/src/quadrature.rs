//! Level-symmetric quadrature sets S2 to S8.
//!
//! First cosine and weights: E. E. Lewis, W. F. Miller, "Computational Methods of Neutron
//! Transport" (1984), table 4-1 (LQn sets). The other cosines follow from the first one (there, eq.
//! 4-14): mu_i^2 = mu_1^2 + 2 (i - 1) (1 - 3 mu_1^2) / (N - 2). The published weights have seven
//! digits and are scaled here to sum to 1 exactly over all octants. An isotropic angular flux psi
//! then has the scalar flux psi.

/// The quadrature set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnOrder {
    /// One angle per octant.
    S2,
    /// 3 angles per octant.
    S4,
    /// 6 angles per octant.
    S6,
    /// 10 angles per octant.
    S8,
}

/// A direction of the first octant: its cosines are positive, other octants mirror them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Angle {
    /// Cosines with the i, j and k axes.
    pub cosines: [f64; 3],
    /// Weight; those of all angles of all eight octants sum to 1.
    pub weight: f64,
}

impl SnOrder {
    /// The set's N.
    pub fn n(self) -> usize {
        match self {
            SnOrder::S2 => 2,
            SnOrder::S4 => 4,
            SnOrder::S6 => 6,
            SnOrder::S8 => 8,
        }
    }

    /// The set of this N, if it exists.
    pub fn from_n(n: usize) -> Option<Self> {
        [SnOrder::S2, SnOrder::S4, SnOrder::S6, SnOrder::S8].into_iter().find(|s| s.n() == n)
    }

    /// Angles per octant: N (N + 2) / 8.
    pub fn angles_per_octant(self) -> usize {
        self.n() * (self.n() + 2) / 8
    }

    fn first_cosine(self) -> f64 {
        match self {
            SnOrder::S2 => 0.577_350_3,
            SnOrder::S4 => 0.350_021_2,
            SnOrder::S6 => 0.266_635_5,
            SnOrder::S8 => 0.218_217_9,
        }
    }

    /// The published weight of the point on levels (a, b, c), counted from 1.
    fn published_weight(self, levels: [usize; 3]) -> f64 {
        let mut class = levels;
        class.sort_unstable();
        match (self, class) {
            (SnOrder::S2, _) => 1.0,
            (SnOrder::S4, _) => 0.333_333_3,
            (SnOrder::S6, [1, 1, 3]) => 0.176_126_3,
            (SnOrder::S6, _) => 0.157_207_1,
            (SnOrder::S8, [1, 1, 4]) => 0.120_987_7,
            (SnOrder::S8, [1, 2, 3]) => 0.090_740_7,
            (SnOrder::S8, _) => 0.092_592_6,
        }
    }

    /// The angles of one octant, in a fixed order.
    pub fn octant(self) -> Vec<Angle> {
        let levels = self.n() / 2;
        let cosine = self.cosines();
        let mut angles = Vec::with_capacity(self.angles_per_octant());
        for a in 1..=levels {
            for b in 1..=levels + 1 - a {
                let c = levels + 2 - a - b;
                angles.push(Angle {
                    cosines: [cosine[a - 1], cosine[b - 1], cosine[c - 1]],
                    weight: self.published_weight([a, b, c]),
                });
            }
        }
        let sum: f64 = angles.iter().map(|angle| angle.weight).sum();
        for angle in &mut angles {
            angle.weight /= 8.0 * sum;
        }
        angles
    }

    fn cosines(self) -> Vec<f64> {
        let n = self.n();
        let first = self.first_cosine() * self.first_cosine();
        if n == 2 {
            return vec![(1.0f64 / 3.0).sqrt()];
        }
        let step = 2.0 * (1.0 - 3.0 * first) / (n as f64 - 2.0);
        (0..n / 2).map(|i| (first + step * i as f64).sqrt()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SnOrder; 4] = [SnOrder::S2, SnOrder::S4, SnOrder::S6, SnOrder::S8];

    #[test]
    fn published_weights_sum_to_one_per_octant() {
        for order in ALL {
            let levels = order.n() / 2;
            let mut sum = 0.0;
            for a in 1..=levels {
                for b in 1..=levels + 1 - a {
                    sum += order.published_weight([a, b, levels + 2 - a - b]);
                }
            }
            assert!((sum - 1.0).abs() < 5e-7, "{order:?}: {sum}");
        }
    }

    #[test]
    fn sets_are_complete_normalised_and_on_the_sphere() {
        for order in ALL {
            let octant = order.octant();
            assert_eq!(octant.len(), order.angles_per_octant());
            let sum: f64 = octant.iter().map(|angle| 8.0 * angle.weight).sum();
            assert!((sum - 1.0).abs() < 1e-14, "{order:?}: {sum}");
            for angle in octant {
                let length: f64 = angle.cosines.iter().map(|c| c * c).sum();
                assert!((length - 1.0).abs() < 1e-14, "{order:?}: {length}");
            }
        }
    }

    /// Integrals of even powers of a cosine over the sphere: 1/3 for the square, 1/5 for the fourth
    /// power from S4 on, 1/7 for the sixth from S6 on.
    #[test]
    fn moments_are_integrated() {
        for order in ALL {
            for power in [2, 4, 6] {
                let moment = |axis: usize| -> f64 {
                    let octant = order.octant();
                    octant.iter().map(|a| 8.0 * a.weight * a.cosines[axis].powi(power)).sum()
                };
                for axis in 0..3 {
                    if power as usize <= order.n() {
                        let exact = 1.0 / f64::from(power + 1);
                        assert!((moment(axis) - exact).abs() < 1e-6, "{order:?} {power}");
                    }
                }
            }
        }
    }
}
