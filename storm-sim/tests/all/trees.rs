//! The analytic model and the simulated machine are made from one profile. On trees of messages,
//! where every daemon and every question is simulated, they give the same launch times.

use std::time::Duration;
use storm_model::{Mib, NodeCount, Question, builtin, predict};
use storm_sim::figures::{LaunchSetup, launch};

/// Length of the paper's program.
const BINARY_BYTES: u64 = 12 << 20;
/// Noise, wake-ups and pauses between questions, which only the machine has.
const TOLERANCE: f64 = 0.12;

fn predicted_ms(profile: &str, nodes: u32) -> f64 {
    let profile = builtin(profile).expect("a profile");
    let nodes = NodeCount::new(nodes.into()).expect("nodes");
    let size = Mib::from_bytes(BINARY_BYTES);
    let question = Question { processes_per_node: 4, size, ..Question::of(nodes) };
    predict(&profile, &question).expect("a prediction").launch.total_ms
}

/// The median of five seeds: one launch in ten meets a pause between questions that is short or
/// long by a tenth.
fn simulated_ms(profile: &str, nodes: u32) -> f64 {
    let mut times: Vec<f64> = (1..=5)
        .map(|seed| {
            let setup = LaunchSetup {
                profile: profile.to_owned(),
                // The manager of these networks acts at once while no row is shared.
                act_every: Duration::from_micros(10),
                seed,
                ..LaunchSetup::of_paper(nodes)
            };
            launch(&setup).expect("a launch").total.as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn a_launch_over_a_tree_takes_what_the_model_says() {
    for profile in ["gigabit-ethernet", "infiniband", "ethernet-100g", "soft-roce"] {
        for nodes in [1, 4, 16, 64, 256] {
            let (predicted, simulated) =
                (predicted_ms(profile, nodes), simulated_ms(profile, nodes));
            let error = simulated / predicted - 1.0;
            println!("{profile}, {nodes} nodes: {simulated:.2} ms, model {predicted:.2} ms");
            assert!(
                error.abs() <= TOLERANCE,
                "{profile}, {nodes} nodes: simulated {simulated:.2} ms, predicted {predicted:.2} ms"
            );
        }
    }
}
