//! The workload model against its own laws: draws are distributed as the parameters say, by
//! Kolmogorov-Smirnov and chi-square tests. Seeds are fixed, so that a test that passes once passes
//! always.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF, Gamma};
use storm_replay::lublin::{
    Arrivals, BUCKET_S, BUCKETS, ClassParams, JobClass, MAX_LN_RUN_TIME, RunTime, Size, SizeParams,
};

const CLASSES: [JobClass; 3] = [JobClass::Batch, JobClass::Interactive, JobClass::Typeless];
const DRAWS: usize = 20_000;
/// The value that sqrt(n) times the greatest distance exceeds once in a thousand times.
const KS_CRITICAL: f64 = 1.95;
/// The probability below which chi-square rejects.
const CHI_SQUARE_LEVEL: f64 = 0.001;
/// The natural logarithm of the longest time between two arrivals.
const MAX_LN_GAP: f64 = 13.0;

fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(20_061_101)
}

fn cdf((shape, scale): (f64, f64)) -> impl Fn(f64) -> f64 {
    let gamma = Gamma::new(shape, 1.0 / scale).unwrap();
    move |x| gamma.cdf(x)
}

/// sqrt(n) times the greatest distance between sorted values and their law.
fn distance(values: &mut [f64], law: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let apart = values.iter().enumerate().map(|(index, value)| {
        let expected = law(*value);
        let (below, above) = (index as f64 / count, (index + 1) as f64 / count);
        (expected - below).abs().max((expected - above).abs())
    });
    apart.fold(0.0, f64::max) * count.sqrt()
}

#[test]
fn run_times_are_hyper_gamma_at_every_size() {
    for class in CLASSES {
        let params = class.params().run_time;
        let (short, long) = (cdf(params.short), cdf(params.long));
        let run_time = RunTime::new(params).unwrap();
        for procs in [1, 32, 128] {
            let p = (params.slope * f64::from(procs) + params.intercept).clamp(0.0, 1.0);
            assert_eq!(run_time.short_probability(procs), p);
            let mixture = |ln: f64| p * short(ln) + (1.0 - p) * long(ln);
            // Run times are whole seconds: a run time of at most k was below k + 1.
            let law = |run_s: f64| mixture((run_s + 1.0).ln()) / mixture(MAX_LN_RUN_TIME);
            let mut random = random();
            let mut counts = std::collections::BTreeMap::new();
            for _ in 0..DRAWS {
                *counts.entry(run_time.draw_s(procs, &mut random)).or_insert(0_u32) += 1;
            }
            let mut so_far = 0.0;
            let mut greatest: f64 = 0.0;
            for (run_s, count) in counts {
                so_far += f64::from(count) / DRAWS as f64;
                greatest = greatest.max((so_far - law(run_s as f64)).abs());
            }
            let apart = greatest * (DRAWS as f64).sqrt();
            assert!(apart < KS_CRITICAL, "{class:?}, {procs} processors: {apart}");
        }
    }
}

/// The probability of each size from 0 to the machine's, by the definition.
fn size_law(params: SizeParams, pes: u32) -> Vec<f64> {
    let SizeParams { serial, power_of_two, log2_low, lower_stage } = params;
    let high = f64::from(pes).log2();
    let middle = high - 2.5;
    let within = |x: f64, from: f64, to: f64| ((x - from) / (to - from)).clamp(0.0, 1.0);
    let stage = |x: f64| {
        lower_stage * within(x, log2_low, middle) + (1.0 - lower_stage) * within(x, middle, high)
    };
    let mut law = vec![0.0; pes as usize + 1];
    law[1] = serial;
    for log2 in 0..=high as u32 {
        let x = f64::from(log2);
        law[1 << log2] += power_of_two * (stage(x + 0.5) - stage(x - 0.5));
    }
    for (size, probability) in law.iter_mut().enumerate().skip(1) {
        let size = size as f64;
        let here = stage((size + 0.5).log2()) - stage((size - 0.5).log2());
        *probability += (1.0 - serial - power_of_two) * here;
    }
    law
}

#[test]
fn sizes_follow_the_law_of_the_model() {
    for class in CLASSES {
        let params = class.params().size;
        let law = size_law(params, 256);
        assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let size = Size::new(params, 256);
        let mut random = random();
        let mut drawn = vec![0.0; law.len()];
        for _ in 0..DRAWS {
            drawn[size.draw(&mut random) as usize] += 1.0;
        }
        // One cell for each power of two, one for the sizes between two of them.
        let mut cells = std::collections::BTreeMap::new();
        for size in 1..law.len() {
            let cell = (size.ilog2(), size.is_power_of_two());
            let (expected, observed) = cells.entry(cell).or_insert((0.0, 0.0));
            *expected += law[size] * DRAWS as f64;
            *observed += drawn[size];
        }
        cells.retain(|_, (expected, observed)| {
            assert!(*expected > 1e-9 || *observed < 0.5, "{class:?}: an impossible size");
            *expected >= 5.0
        });
        let terms = cells.values().map(|(expected, observed)| {
            let apart: f64 = observed - expected;
            apart * apart / expected
        });
        let freedom = (cells.len() - 1) as f64;
        let probability = 1.0 - ChiSquared::new(freedom).unwrap().cdf(terms.sum());
        assert!(probability > CHI_SQUARE_LEVEL, "{class:?}: {probability}, {cells:?}");
    }
}

#[test]
fn gaps_between_arrivals_are_gamma_without_the_daily_cycle() {
    for class in CLASSES {
        let params = class.params().arrivals;
        let mut arrivals = Arrivals::new(params).unwrap();
        let weights = *arrivals.weights();
        let points = |time_s: f64| {
            let buckets = (time_s / BUCKET_S) as usize;
            let days = (buckets / BUCKETS) as f64;
            let today: f64 = weights[..buckets % BUCKETS].iter().sum();
            let part = time_s / BUCKET_S - buckets as f64;
            days * weights.iter().sum::<f64>() + today + part * weights[buckets % BUCKETS]
        };
        let mut random = random();
        let mut before = 0.0;
        let mut gaps: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let now = points(arrivals.next_s(&mut random));
                ((now - std::mem::replace(&mut before, now)) * BUCKET_S).ln()
            })
            .collect();
        let (shape, scale) = params.rush;
        let law = cdf((shape * params.rush_to_all, scale));
        let apart = distance(&mut gaps, |ln| law(ln) / law(MAX_LN_GAP));
        assert!(apart < KS_CRITICAL, "{class:?}: {apart}");
    }
}

#[test]
fn the_day_has_its_cycle() {
    for class in CLASSES {
        let ClassParams { arrivals: params, .. } = class.params();
        let mut arrivals = Arrivals::new(params).unwrap();
        let weights = *arrivals.weights();
        assert!((weights.iter().sum::<f64>() / BUCKETS as f64 - 1.0).abs() < 1e-12);
        let mut random = random();
        let mut drawn = [0.0; BUCKETS];
        let draws = 20 * DRAWS;
        for _ in 0..draws {
            drawn[(arrivals.next_s(&mut random) / BUCKET_S) as usize % BUCKETS] += 1.0;
        }
        let share = |counts: &[f64; BUCKETS], of: f64| counts.map(|count| count / of);
        let (drawn, law) = (share(&drawn, draws as f64), share(&weights, BUCKETS as f64));
        for bucket in 0..BUCKETS {
            let apart = (drawn[bucket] - law[bucket]).abs();
            assert!(apart < 0.003, "{class:?}, half-hour {bucket}: {apart}");
        }
        // The authors' logs are busiest in working hours and quiet at night.
        let busiest = (0..BUCKETS).max_by(|a, b| drawn[*a].total_cmp(&drawn[*b])).unwrap();
        assert!((20..36).contains(&busiest), "{class:?}: {busiest}");
        assert!(drawn[busiest] > 3.0 * drawn[8], "{class:?}");
    }
}

#[test]
fn the_means_are_those_of_the_authors_program() {
    // E[ln run] of both gammas, as the reference states them.
    let stated = [(5.407, 9.970), (2.533, 4.849), (3.948, 9.36)];
    for (class, (short, long)) in CLASSES.into_iter().zip(stated) {
        let params = class.params().run_time;
        assert!((params.short.0 * params.short.1 - short).abs() < 5e-4, "{class:?}");
        assert!((params.long.0 * params.long.1 - long).abs() < 5e-4, "{class:?}");
    }
}
