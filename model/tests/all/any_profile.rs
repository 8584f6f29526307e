//! Profiles with arbitrary numbers. Reading a profile either reports the fault, or gives a machine
//! for which every question has an answer.

use proptest::prelude::*;
use storm_model::{
    BUILTIN_NAMES, Goal, InputError, KEYS, KeyRange, MAX_NODES, Mib, NodeCount, Profile,
    ProfileError, Question, builtin, predict, size,
};

/// Any number that a file can contain.
fn anything() -> impl Strategy<Value = f64> {
    let odd = [0.0, -0.0, -1.0, 0.5, 4e9, 1e30, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY];
    prop_oneof![any::<f64>(), prop::sample::select(odd.to_vec()), 0.0..1e4]
}

/// A valid number, often an end of the range.
fn sensible(range: KeyRange) -> impl Strategy<Value = f64> {
    let KeyRange { least, most, whole } = range;
    let low = least.max(1e-9).log10();
    let between = (low..=most.log10()).prop_map(move |exponent| {
        let value = 10f64.powf(exponent).clamp(least, most);
        if whole { value.round() } else { value }
    });
    prop_oneof![Just(least), Just(most), between]
}

/// The text of a profile in which each value is replaced by the next of `numbers`.
fn written(name: &str, numbers: &[f64]) -> String {
    let mut numbers = numbers.iter().cycle();
    let lines = builtin(name).unwrap().to_toml();
    let line = |line: &str| match line.split_once("{ value = ") {
        Some((key, _)) if !key.starts_with('#') => {
            let number = numbers.next().copied().unwrap_or_default();
            format!("{key}{{ value = {}, source = \"any\" }}\n", toml::Value::from(number))
        }
        Some(_) | None => format!("{line}\n"),
    };
    lines.lines().map(line).collect()
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(BUILTIN_NAMES.to_vec())
}

/// A machine with only valid values.
fn machines() -> impl Strategy<Value = Profile> {
    let ranges = |name: &'static str| {
        let profile = builtin(name).unwrap();
        let keys: Vec<_> = profile.values().into_iter().map(|(key, _)| key).collect();
        let in_order = KEYS.into_iter().filter(|one| keys.contains(&one.key));
        in_order.map(|one| sensible(one.range).boxed()).collect::<Vec<_>>()
    };
    names().prop_flat_map(move |name| {
        ranges(name).prop_map(move |numbers| Profile::from_toml(&written(name, &numbers)).unwrap())
    })
}

/// Asserts that launch and strobe are numbers, and not negative.
fn assert_answers(profile: &Profile, nodes: u64) {
    let question =
        Question { processes_per_node: 4, ..Question::of(NodeCount::new(nodes).unwrap()) };
    let prediction = predict(profile, &question).unwrap();
    for number in [
        prediction.launch.total_ms,
        prediction.strobe.strobe_us,
        prediction.strobe.skew_us,
        prediction.compare_and_write_us,
    ] {
        assert!(number.is_finite() && number >= 0.0, "{number}: {prediction:?}");
    }
}

proptest! {
    #[test]
    fn any_numbers_are_refused_with_their_key_or_understood(
        name in names(),
        numbers in prop::collection::vec(anything(), 32),
    ) {
        match Profile::from_toml(&written(name, &numbers)) {
            Ok(profile) => assert_answers(&profile, 16),
            Err(error @ ProfileError::Value { .. }) => {
                let text = error.to_string();
                prop_assert!(text.starts_with("line ") && text.contains(" must be "), "{}", text);
                prop_assert!(text.len() < 200 && !error.hint().is_empty());
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn every_machine_in_range_is_answered_for(profile in machines(), nodes in 1u64..20_000) {
        assert_answers(&profile, nodes);
        assert_answers(&profile, 1);
        assert_answers(&profile, MAX_NODES);
        prop_assert_eq!(&Profile::from_toml(&profile.to_toml()).unwrap(), &profile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_machine_in_range_is_sized(profile in machines()) {
        let goal = Goal {
            size: Mib::PAPER_BINARY,
            processes_per_node: 4,
            launch_ms: 150.0,
            quantum_us: 2_000.0,
            cost_percent: 2.0,
            most_nodes: NodeCount::new(4_096).unwrap(),
            fan_out: None,
            chunk_bytes: None,
        };
        match size(&profile, &goal) {
            Ok(sizing) => prop_assert!(sizing.largest.is_none_or(|one| one.launch_ms <= 150.0)),
            Err(
                InputError::QuantumUnderStrobe { .. } | InputError::QuantumUnderShortest { .. },
            ) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
