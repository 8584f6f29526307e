//! Predictions: the paper's figures through the profiles, and properties that
//! hold on every machine.

use proptest::prelude::*;
use storm_model::{
    BUILTIN_NAMES, FanOut, InputError, Launch, Metres, Mib, Network, NodeCount, Profile, Question,
    builtin, fig_8, predict,
};

fn nodes(count: u64) -> NodeCount {
    NodeCount::new(count).unwrap()
}

fn profiles() -> impl Strategy<Value = Profile> {
    prop::sample::select(BUILTIN_NAMES.to_vec()).prop_map(|name| builtin(name).unwrap())
}

fn launch(profile: &Profile, question: &Question) -> Launch {
    predict(profile, question).unwrap().launch
}

/// A question with this fan-out, if the machine has a tree.
fn fixed(profile: &Profile, count: u64, fan_out: u32) -> Question {
    let fan_out = match profile.network {
        Network::Tree(_) => Some(FanOut::new(fan_out).unwrap()),
        Network::Multicast(_) | Network::SharedHost(_) => None,
    };
    Question { fan_out, ..Question::of(nodes(count)) }
}

#[test]
fn the_paper_profiles_predict_figure_8() {
    let (es40, ideal) = (builtin("es40-qsnet").unwrap(), builtin("ideal").unwrap());
    for row in fig_8() {
        let question = Question::of(row.nodes);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let es40 = launch(&es40, &question);
        assert!(close(es40.total_ms, row.es40_launch_ms), "{row:?} {es40:?}");
        assert!(close(es40.transfer_ms, row.es40_transfer_ms), "{row:?} {es40:?}");
        assert!(close(launch(&ideal, &question).total_ms, row.ideal_launch_ms), "{row:?}");
    }
}

#[test]
fn compare_and_write_grows_as_in_figure_7() {
    let es40 = builtin("es40-qsnet").unwrap();
    let us = |count| predict(&es40, &Question::of(nodes(count))).unwrap().compare_and_write_us;
    assert!((us(1_024) - us(1) - 6.0).abs() < 1e-9);
}

#[test]
fn the_limits_of_the_papers_machine_match_the_paper() {
    let es40 = builtin("es40-qsnet").unwrap();
    let limit = |count| launch(&es40, &Question::of(nodes(count))).limit().to_string();
    assert_eq!(limit(64), "the host process that serves the NIC");
    assert_eq!(limit(16_384), "network bandwidth");
}

#[test]
fn a_quantum_that_nobody_can_keep_is_refused_with_the_reason() {
    let with = |name, count, quantum_us| {
        let question = Question { quantum_us: Some(quantum_us), ..Question::of(nodes(count)) };
        predict(&builtin(name).unwrap(), &question)
    };
    let cost = with("es40-qsnet", 64, 2_000.0).unwrap().quantum.unwrap();
    assert!(cost.cost_percent < 2.0, "{cost:?}");
    let error = with("es40-qsnet", 64, 200.0).unwrap_err();
    assert!(error.to_string().contains("4.3.1"), "{error}");
    assert!(error.hint().contains("300"), "{}", error.hint());
    let error = with("gigabit-ethernet", 4_096, 100.0).unwrap_err();
    assert!(matches!(error, InputError::QuantumUnderStrobe { .. }), "{error}");
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(with("ideal", 64, wrong).is_err());
    }
}

#[test]
fn no_processes_and_no_chunk_are_refused() {
    let profile = builtin("gigabit-ethernet").unwrap();
    let question = Question::of(nodes(4));
    let none = Question { processes_per_node: 0, ..question };
    assert!(predict(&profile, &none).unwrap_err().to_string().contains("processes"));
    let none = Question { chunk_bytes: Some(0), ..question };
    assert!(predict(&profile, &none).unwrap_err().to_string().contains("chunk"));
}

#[test]
fn a_setting_that_the_machine_does_not_have_is_refused() {
    let question = Question::of(nodes(4));
    let cable = Question { cable: Some(Metres::new(10.0).unwrap()), ..question };
    let tree = Question { fan_out: Some(FanOut::ONE), ..question };
    for (name, wrong) in [("gigabit-ethernet", cable), ("es40-qsnet", tree)] {
        let error = predict(&builtin(name).unwrap(), &wrong).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.hint().contains("leave"), "{}", error.hint());
    }
}

#[test]
fn a_known_cable_takes_the_place_of_the_floor_plan() {
    let ideal = builtin("ideal").unwrap();
    let question =
        Question { cable: Some(Metres::new(90.0).unwrap()), ..Question::of(nodes(4_096)) };
    // Table 3, the last cell: 146.
    let rate = 12.0 / launch(&ideal, &question).transfer_ms * 1e3;
    assert_eq!(rate.round(), 146.0);
}

proptest! {
    #[test]
    fn a_launch_is_no_shorter_on_more_nodes(
        profile in profiles(),
        (fewer, more) in (1u64..20_000, 0u64..20_000).prop_map(|(n, d)| (n, n + d)),
        fan_out in 1u32..=64,
        mib in 0.0..64.0,
    ) {
        let size = Mib::new(mib).unwrap();
        let at = |count| {
            let question = Question { size, processes_per_node: 4, ..fixed(&profile, count, fan_out) };
            predict(&profile, &question).unwrap()
        };
        let (few, many) = (at(fewer), at(more));
        prop_assert!(few.launch.total_ms <= many.launch.total_ms + 1e-9);
        prop_assert!(few.strobe.strobe_us <= many.strobe.strobe_us + 1e-9);
        prop_assert!(few.strobe.skew_us <= many.strobe.skew_us + 1e-9);
        prop_assert!(few.compare_and_write_us <= many.compare_and_write_us + 1e-9);
    }

    #[test]
    fn a_launch_is_no_shorter_with_more_bytes(
        profile in profiles(),
        count in 1u64..5_000,
        fan_out in 1u32..=64,
        (less, more) in (0.0..64.0, 0.0..64.0).prop_map(|(a, d): (f64, f64)| (a, a + d)),
    ) {
        let at = |mib| {
            let size = Mib::new(mib).unwrap();
            launch(&profile, &Question { size, ..fixed(&profile, count, fan_out) }).total_ms
        };
        prop_assert!(at(less) <= at(more) + 1e-9);
    }

    #[test]
    fn the_parts_add_up_and_the_longest_is_first(
        profile in profiles(),
        count in 1u64..5_000,
        fan_out in 1u32..=64,
        mib in 0.0..64.0,
    ) {
        let size = Mib::new(mib).unwrap();
        let launch = launch(&profile, &Question { size, ..fixed(&profile, count, fan_out) });
        let sum: f64 = launch.parts.iter().map(|part| part.time_ms).sum();
        prop_assert!((sum - launch.total_ms).abs() <= 1e-9 * launch.total_ms);
        let sorted = launch.parts.windows(2).all(|pair| pair[0].time_ms >= pair[1].time_ms);
        prop_assert!(sorted);
        let terms = launch.transfer_ms + launch.exec_ms + launch.slice_ms;
        prop_assert!((terms - launch.total_ms).abs() <= 1e-9 * launch.total_ms);
    }

    #[test]
    fn the_chosen_fan_out_is_the_best_of_all(
        name in prop::sample::select(vec!["gigabit-ethernet", "infiniband", "ethernet-100g", "soft-roce"]),
        count in 1u64..200,
        mib in 0.0..64.0,
    ) {
        let profile = builtin(name).unwrap();
        let size = Mib::new(mib).unwrap();
        let chosen = predict(&profile, &Question { size, ..Question::of(nodes(count)) }).unwrap();
        let total_ms = |fan_out| {
            launch(&profile, &Question { size, ..fixed(&profile, count, fan_out) }).total_ms
        };
        let least = (1..=200).map(total_ms).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(chosen.launch.total_ms, least);
        prop_assert_eq!(chosen.launch.total_ms, total_ms(chosen.fan_out.unwrap().get()));
    }
}
