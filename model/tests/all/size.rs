//! Sizes. The answer meets the goal, a machine with one more node does not, and the named limit is
//! the obstacle.

use proptest::prelude::*;
use storm_model::{
    FanOut, Goal, Limit, Mib, NodeCount, Part, Profile, Question, Setting, SizeLimit, builtin,
    predict, size,
};

/// The largest size in the property tests. It is small enough for brute force to try all sizes.
const MOST: u64 = 300;
const FAN_OUTS: u32 = 300;

fn nodes(count: u64) -> NodeCount {
    NodeCount::new(count).unwrap()
}

/// An example: 12 MB within 150 ms, and time slices of 2 ms that cost less than 2 %.
fn example() -> Goal {
    Goal {
        size: Mib::PAPER_BINARY,
        processes_per_node: 4,
        launch_ms: 150.0,
        quantum_us: 2_000.0,
        cost_percent: 2.0,
        most_nodes: nodes(1 << 20),
        fan_out: None,
        chunk_bytes: None,
    }
}

/// The launch in ms and the cost of the time slice in percent, from two separate questions.
fn asked(
    profile: &Profile,
    goal: &Goal,
    count: u64,
    fan_out: Option<FanOut>,
) -> (Vec<Part>, f64, f64) {
    let question = goal.question(nodes(count), fan_out, goal.chunk_bytes);
    let prediction = predict(profile, &question).unwrap();
    let cost_percent = prediction.strobe.lost_us() / goal.quantum_us * 100.0;
    (prediction.launch.parts.clone(), prediction.launch.total_ms, cost_percent)
}

fn assert_meets(profile: &Profile, goal: &Goal, setting: &Setting) {
    let question = Question {
        quantum_us: Some(goal.quantum_us),
        ..goal.question(setting.nodes, setting.fan_out, setting.chunk_bytes)
    };
    let prediction = predict(profile, &question).unwrap();
    assert_eq!(prediction.launch.total_ms, setting.launch_ms);
    assert!(setting.launch_ms <= goal.launch_ms, "{setting:?}");
    let cost_percent = prediction.quantum.unwrap().cost_percent;
    assert!((cost_percent - setting.cost_percent).abs() < 1e-9);
    assert!(cost_percent <= goal.cost_percent, "{setting:?}");
}

#[test]
fn the_papers_machine_meets_the_example_up_to_the_size_that_equation_7_gives() {
    let (profile, goal) = (builtin("es40-qsnet").unwrap(), example());
    let sizing = size(&profile, &goal).unwrap();
    let largest = sizing.largest.unwrap();
    assert_meets(&profile, &goal, &largest);
    assert_eq!(sizing.limit, SizeLimit::Launch(Limit::Bandwidth));
    let more = goal.question(nodes(largest.nodes.get() + 1), None, None);
    assert!(predict(&profile, &more).unwrap().launch.total_ms > goal.launch_ms);
}

#[test]
fn gigabit_ethernet_is_limited_by_its_bytes() {
    let sizing = size(&builtin("gigabit-ethernet").unwrap(), &example()).unwrap();
    assert_eq!(sizing.limit, SizeLimit::Both(Limit::Bandwidth), "{sizing:?}");
    let sizing = size(&builtin("ethernet-100g").unwrap(), &example()).unwrap();
    assert!(sizing.largest.unwrap().nodes.get() > 64, "{sizing:?}");
}

#[test]
fn a_goal_that_makes_no_sense_is_refused() {
    let profile = builtin("gigabit-ethernet").unwrap();
    for wrong in [
        Goal { launch_ms: 0.0, ..example() },
        Goal { launch_ms: f64::NAN, ..example() },
        Goal { quantum_us: -1.0, ..example() },
        Goal { cost_percent: 0.0, ..example() },
        Goal { cost_percent: 100.5, ..example() },
        Goal { quantum_us: 10.0, ..example() },
        Goal { processes_per_node: 0, ..example() },
        Goal { chunk_bytes: Some(0), ..example() },
    ] {
        assert!(size(&profile, &wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_machine_without_a_tree_is_answered_for_without_its_settings() {
    let goal = Goal { fan_out: Some(FanOut::ONE), chunk_bytes: Some(1 << 16), ..example() };
    let es40 = builtin("es40-qsnet").unwrap();
    let sizing = size(&es40, &goal).unwrap();
    assert_eq!(sizing.not_applicable, ["fan-out", "chunk"]);
    assert_eq!(sizing.largest, size(&es40, &example()).unwrap().largest);
    let sizing = size(&builtin("infiniband").unwrap(), &goal).unwrap();
    assert!(sizing.not_applicable.is_empty(), "{sizing:?}");
    assert_eq!(sizing.largest.unwrap().fan_out, goal.fan_out);
}

#[test]
fn a_goal_beyond_reach_names_what_is_in_the_way() {
    let profile = builtin("es40-qsnet").unwrap();
    let sizing = size(&profile, &Goal { launch_ms: 50.0, ..example() }).unwrap();
    assert_eq!(sizing.largest, None);
    assert_eq!(sizing.limit, SizeLimit::Launch(Limit::Service));
    let sizing = size(&profile, &Goal { cost_percent: 0.5, ..example() }).unwrap();
    assert_eq!((sizing.largest, sizing.limit), (None, SizeLimit::Quantum(Limit::Switch)));
}

#[test]
fn a_launch_that_only_trees_with_dear_slices_have_in_time_is_no_want_of_bandwidth() {
    let profile = builtin("gigabit-ethernet").unwrap();
    let goal = Goal { launch_ms: 150.0, quantum_us: 2000.0, cost_percent: 2.0, ..example() };
    let sizing = size(&profile, &goal).unwrap();
    assert!(matches!(sizing.limit, SizeLimit::Both(_)), "{sizing:?}");
    assert!(sizing.beyond.unwrap().launch_ms > goal.launch_ms);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_answer_meets_the_goal_and_one_node_more_breaks_what_is_named(
        name in prop::sample::select(vec!["es40-qsnet", "gigabit-ethernet", "infiniband"]),
        launch_ms in 20.0..2_000.0,
        quantum_us in 500.0..20_000.0,
        cost_percent in 0.5..20.0,
        mib in 0.0..32.0,
    ) {
        let profile = builtin(name).unwrap();
        let goal = Goal {
            size: Mib::new(mib).unwrap(),
            launch_ms,
            quantum_us,
            cost_percent,
            most_nodes: nodes(MOST),
            chunk_bytes: (name != "es40-qsnet").then_some(512 << 10),
            ..example()
        };
        let sizing = size(&profile, &goal).unwrap();
        if let Some(setting) = &sizing.largest {
            assert_meets(&profile, &goal, setting);
        }
        if sizing.limit == SizeLimit::Goal {
            prop_assert_eq!(sizing.largest.unwrap().nodes.get(), MOST);
            return Ok(());
        }
        let beyond = sizing.beyond.unwrap();
        prop_assert!(beyond.launch_ms > launch_ms || beyond.cost_percent > cost_percent);
        // Every tree of the next larger machine, one by one.
        let next = sizing.largest.map_or(1, |setting| setting.nodes.get() + 1);
        let trees: Vec<Option<FanOut>> = match name {
            "es40-qsnet" => vec![None],
            _ => (1..=FAN_OUTS).map(|children| Some(FanOut::new(children).unwrap())).collect(),
        };
        let all: Vec<_> =
            trees.into_iter().map(|tree| asked(&profile, &goal, next, tree)).collect();
        let affordable: Vec<_> = all.iter().filter(|one| one.2 <= goal.cost_percent).collect();
        match sizing.limit {
            SizeLimit::Quantum(limit) => {
                prop_assert!(affordable.is_empty());
                prop_assert!(matches!(limit, Limit::Skew | Limit::Switch));
            }
            SizeLimit::Launch(limit) | SizeLimit::Both(limit) => {
                let others_do = all.iter().any(|one| one.1 <= goal.launch_ms);
                prop_assert_eq!(others_do, matches!(sizing.limit, SizeLimit::Both(_)));
                let fastest = affordable.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
                prop_assert!(fastest.1 > goal.launch_ms);
                let longest = fastest.0.iter().map(|part| part.time_ms).fold(0.0, f64::max);
                let named = fastest.0.iter().find(|part| part.limit == limit).unwrap();
                prop_assert_eq!(named.time_ms, longest);
            }
            SizeLimit::Goal => unreachable!(),
        }
    }
}
