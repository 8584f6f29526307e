//! Profiles: one text serves the model and the simulation. Every value has a source, and invalid
//! values are refused with the reason.

use storm_model::KEYS;
use storm_qsnet_sim::{
    BUILTIN_NAMES, Machine, MachineError, Profile, ProfileError, SIMULATION_KEYS,
};

fn es40() -> String {
    Profile::builtin("es40-qsnet").unwrap().to_toml()
}

#[test]
fn every_value_of_every_built_in_profile_has_a_key_and_a_source() {
    for name in BUILTIN_NAMES {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!(profile.machine.name, name);
        for (key, value) in profile.simulation_values() {
            assert!(!value.source.trim().is_empty(), "{name}: {key}");
            assert!(!value.source.contains("default"), "{name} leaves {key} out");
            assert_eq!(SIMULATION_KEYS.iter().filter(|one| one.key == key).count(), 1, "{key}");
        }
        Machine::new(profile, 64).unwrap().fabric().unwrap();
    }
}

#[test]
fn a_shown_profile_is_read_by_the_model_and_the_simulation() {
    for name in BUILTIN_NAMES {
        let profile = Profile::builtin(name).unwrap();
        let text = profile.to_toml();
        assert_eq!(Profile::from_toml(&text).unwrap(), profile, "{text}");
        assert_eq!(storm_model::Profile::from_toml(&text).unwrap(), profile.machine, "{text}");
        let of_a_network = |key: &str| key.starts_with("network.");
        let shown = KEYS.iter().filter(|one| !of_a_network(one.key)).chain(&SIMULATION_KEYS);
        for key in shown {
            let name = key.parts().1;
            let lines = text.lines().filter(|line| line.trim_start_matches("# ").starts_with(name));
            assert!(lines.count() > 0, "{name} is not in\n{text}");
            assert!(text.contains(key.meaning) && text.contains(&key.range.to_string()), "{name}");
        }
    }
}

#[test]
fn the_models_text_alone_is_a_machine_with_the_defaults() {
    for name in BUILTIN_NAMES {
        let profile = Profile::from_toml(storm_model::builtin_text(name).unwrap()).unwrap();
        for (key, value) in profile.simulation_values() {
            let known = SIMULATION_KEYS.iter().find(|one| one.key == key).unwrap();
            assert_eq!(known.absent, storm_model::Absent::Value(value.value), "{key}");
        }
        Machine::new(profile, 8).unwrap().fabric().unwrap();
    }
}

#[test]
fn invalid_values_are_refused_and_the_key_is_named() {
    for (key, wrong) in [
        ("put-start-us", "-10.0"),
        ("detection-ms", "0.0"),
        ("network-bandwidth-share", "0.0"),
        ("network-bandwidth-share", "1.5"),
        ("processors", "4.5"),
        ("write-mib-s", "0.0"),
        ("noise-us", "20000.0"),
        ("fork-exec-ms", "inf"),
        ("switch-us", "1e300"),
        ("chunk-slots", "0.5"),
        ("chunk-slots", "4e9"),
        ("chunk-bytes", "0.5"),
        ("cable-ns-per-m", "1e30"),
        ("shortest-quantum-us", "nan"),
    ] {
        let of_the_key = |line: &&str| line.starts_with(&format!("{key} = "));
        let text = es40();
        let line = text.lines().find(of_the_key).unwrap_or_else(|| panic!("{key} in {text}"));
        let changed = format!("{key} = {{ value = {wrong}, source = \"x\" }}");
        let error = Profile::from_toml(&text.replace(line, &changed)).expect_err(&changed);
        assert!(error.to_string().contains(key), "{changed}: {error}");
        assert!(!error.hint().is_empty());
    }
    let error = Profile::from_toml(&es40().replace("wake-us", "wake-ms")).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("wake-ms") && source.contains("line "), "{source}");
}

#[test]
fn an_unknown_machine_is_reported_as_unknown() {
    let error = Profile::builtin("myrinet").unwrap_err();
    assert!(error.hint().contains("es40-qsnet"), "{}", error.hint());
}

#[test]
fn one_host_that_its_nodes_share_is_not_simulated() {
    let text = es40();
    let (before, _) = text.split_once("[network.multicast]").unwrap();
    let shared = KEYS.iter().filter(|key| key.key.starts_with("network.shared-host."));
    let value = |key: &storm_model::ProfileKey| {
        format!("{} = {{ value = {:?}, source = \"x\" }}\n", key.parts().1, key.range.least)
    };
    let network: String = shared.map(value).collect();
    let text = format!("{before}[network.shared-host]\n{network}");
    let profile = Profile::from_toml(&text).unwrap();
    assert_eq!(Profile::from_toml(&profile.to_toml()).unwrap(), profile);
    let error = Machine::new(profile, 4).unwrap().fabric().err().unwrap();
    assert!(matches!(error, MachineError::Profile(ProfileError::SharedHost { .. })), "{error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn machines_of_no_nodes_or_too_many_are_refused() {
    let machine = |nodes| Machine::new(Profile::builtin("ideal").unwrap(), nodes);
    let error = machine(0).unwrap_err();
    assert!(error.to_string().contains("0 nodes") && !error.hint().is_empty(), "{error}");
    assert!(matches!(machine(1 << 20), Err(MachineError::TooManyNodes { .. })));
    assert!(machine(1 << 16).is_ok());
}
