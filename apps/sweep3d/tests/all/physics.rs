//! The solver compared with analytic solutions.

use storm_mpi::World;
use sweep3d::answer::{self, Answer};
use sweep3d::decomposition::{Column, ProcessGrid};
use sweep3d::exchange::Alone;
use sweep3d::problem::{Problem, SourceRegion};
use sweep3d::quadrature::SnOrder;
use sweep3d::solver::{Solution, Stop, solve};
use sweep3d::sweep::Blocking;

/// A width at which nothing that enters a cell reaches its other side.
const ENDLESS_CM: f64 = 1e9;
const ALL_ORDERS: [SnOrder; 4] = [SnOrder::S2, SnOrder::S4, SnOrder::S6, SnOrder::S8];
const WHOLE: ProcessGrid = ProcessGrid { npe_i: 1, npe_j: 1 };

fn problem(cells: [usize; 3], width_cm: f64) -> Problem {
    Problem {
        cells,
        widths_cm: [width_cm; 3],
        total_per_cm: 1.0,
        scattering_per_cm: 0.5,
        source: SourceRegion::Center,
        reflect_low: [false; 3],
        order: SnOrder::S4,
    }
}

fn solve_alone(problem: &Problem, stop: Stop) -> Solution {
    solve_blocked(problem, stop, Blocking { mmi: 3, mk: 4 })
}

fn solve_blocked(problem: &Problem, stop: Stop, blocking: Blocking) -> Solution {
    let column = Column { pe_i: 0, pe_j: 0, i: 0..problem.cells[0], j: 0..problem.cells[1] };
    let Ok(solution) = solve(problem, &column, blocking, stop, &mut Alone, |_, _| {});
    solution
}

fn check(problem: &Problem, solution: &Solution, reference: Option<&Solution>) -> Answer {
    let world = World::init().expect("a world of one");
    answer::check(&world, problem, WHOLE, solution, reference).unwrap().expect("at rank 0")
}

/// Without leakage all particles born are absorbed: flux = source / absorption cross-section.
#[test]
fn infinite_medium() {
    for order in ALL_ORDERS {
        for ratio in [0.0, 0.5, 0.9] {
            let mut problem = problem([5, 4, 6], ENDLESS_CM);
            (problem.order, problem.source) = (order, SourceRegion::Uniform);
            problem.scattering_per_cm = ratio;
            let solution = solve_alone(&problem, Stop::Converged(1e-12));
            for flux in &solution.flux {
                let exact = 1.0 / (1.0 - ratio);
                assert!((flux / exact - 1.0).abs() < 1e-7, "{order:?} {ratio}: {flux}");
            }
        }
    }
}

/// Largest relative error of a slab of 4 mean free paths in `cells` cells. In a pure absorber with
/// a uniform source, the flux along a direction of cosine mu is psi(x) = (1 - exp(-x / mu)), with x
/// from the open side.
fn slab_error(order: SnOrder, cells: usize) -> f64 {
    let width = 4.0 / cells as f64;
    let mut problem = problem([cells, 1, 1], width);
    problem.widths_cm = [width, ENDLESS_CM, ENDLESS_CM];
    (problem.order, problem.source, problem.scattering_per_cm) =
        (order, SourceRegion::Uniform, 0.0);
    let solution = solve_alone(&problem, Stop::After(1));
    let mean = |mu: f64, cell: usize| {
        let (from, to) = (cell as f64 * width, (cell + 1) as f64 * width);
        1.0 - mu / width * ((-from / mu).exp() - (-to / mu).exp())
    };
    let exact = |cell: usize| -> f64 {
        let both = |mu| mean(mu, cell) + mean(mu, cells - 1 - cell);
        order.octant().iter().map(|a| 4.0 * a.weight * both(a.cosines[0])).sum()
    };
    let errors = solution.flux.iter().enumerate().map(|(i, flux)| (flux / exact(i) - 1.0).abs());
    errors.fold(0.0, f64::max)
}

/// Diamond differences are of second order: half the cell width gives a quarter of the error.
#[test]
fn absorbing_slab_converges_to_the_exponential() {
    for order in ALL_ORDERS {
        let errors = [160, 320, 640].map(|cells| slab_error(order, cells));
        assert!(errors[2] < 1e-4, "{order:?}: {errors:?}");
        for pair in errors.windows(2) {
            assert!(pair[0] / pair[1] > 3.5, "{order:?}: {errors:?}");
        }
    }
}

#[test]
fn a_symmetric_problem_has_a_symmetric_flux() {
    let n = 10;
    let problem = problem([n; 3], 0.3);
    let flux = solve_alone(&problem, Stop::Converged(1e-10)).flux;
    let at = |i: usize, j: usize, k: usize| flux[(k * n + j) * n + i];
    for k in 0..n {
        for j in 0..n {
            for i in 0..n {
                let images = [at(n - 1 - i, j, k), at(i, n - 1 - j, k), at(i, j, n - 1 - k)];
                for image in images.into_iter().chain([at(j, k, i), at(k, i, j), at(j, i, k)]) {
                    assert!((image / at(i, j, k) - 1.0).abs() < 1e-9, "({i}, {j}, {k})");
                }
            }
        }
    }
}

/// An eighth of a symmetric problem behind reflecting faces is that eighth.
#[test]
fn reflecting_faces_stand_for_the_mirrored_half() {
    let (n, stop) = (6, Stop::After(12));
    let whole = problem([2 * n; 3], 0.3);
    let mut eighth = problem([n; 3], 0.3);
    (eighth.source, eighth.reflect_low) = (SourceRegion::Corner, [true; 3]);
    let (whole, part) = (solve_alone(&whole, stop).flux, solve_alone(&eighth, stop).flux);
    for k in 0..n {
        for j in 0..n {
            for i in 0..n {
                let there = whole[((n + k) * 2 * n + n + j) * 2 * n + n + i];
                let here = part[(k * n + j) * n + i];
                assert!((here / there - 1.0).abs() < 1e-9, "({i}, {j}, {k}): {here} {there}");
            }
        }
    }
}

/// Coarse cells around a source make diamond differences negative: the fix-up steps in and keeps
/// both the flux positive and the balance.
#[test]
fn negative_fluxes_are_fixed_up_conservatively() {
    let problem = problem([12, 10, 8], 2.0);
    let solution = solve_alone(&problem, Stop::Converged(1e-8));
    assert!(solution.fixups > 0);
    assert!(solution.flux.iter().all(|&flux| flux > 0.0));
    let answer = check(&problem, &solution, None);
    assert!(answer.is_right() && answer.balance_error < 1e-12, "{answer:?}");
    assert!(answer.iteration_lag.abs() < 1e-6 * answer.source, "{answer:?}");
}

#[test]
fn balance_holds_at_every_iteration_and_with_reflection() {
    for reflect_low in [[false; 3], [true, false, true], [true; 3]] {
        for iterations in 1..4 {
            let mut problem = problem([9, 7, 5], 0.4);
            problem.reflect_low = reflect_low;
            let answer = check(&problem, &solve_alone(&problem, Stop::After(iterations)), None);
            assert!(answer.balance_error < 1e-12, "{reflect_low:?}: {answer:?}");
        }
    }
}

#[test]
fn blocking_does_not_change_a_bit() {
    let problem = problem([9, 8, 10], 0.7);
    let stop = Stop::Converged(1e-6);
    let reference = solve_blocked(&problem, stop, Blocking { mmi: 3, mk: 10 });
    for (mmi, mk) in [(1, 1), (2, 3), (3, 4), (1, 10)] {
        let solution = solve_blocked(&problem, stop, Blocking { mmi, mk });
        let answer = check(&problem, &solution, Some(&reference));
        assert_eq!(answer.same_as_reference, Some(true), "mmi {mmi} mk {mk}");
    }
}

#[test]
fn a_wrong_answer_is_noticed() {
    let problem = problem([6, 5, 4], 0.5);
    let right = solve_alone(&problem, Stop::Converged(1e-6));
    let mut off_by_a_bit = right.clone();
    off_by_a_bit.flux[17] = f64::from_bits(right.flux[17].to_bits() ^ 1);
    let answer = check(&problem, &off_by_a_bit, Some(&right));
    assert!(answer.balance_error < 1e-12 && !answer.is_right(), "only the bits tell");
    let mut leaking = right.clone();
    leaking.outflow.faces[2][1][3] *= 1.001;
    assert!(!check(&problem, &leaking, None).is_right());
}
