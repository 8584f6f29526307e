//! Profiles: every value has a source, and nonsense is refused with its reason.

use storm_qsnet_sim::{BUILTIN_NAMES, Machine, MachineError, Profile, ProfileError};

const ES40: &str = include_str!("../profiles/es40-qsnet.toml");

#[test]
fn every_value_of_every_built_in_profile_has_a_source() {
    for name in BUILTIN_NAMES {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!(profile.machine.name, name);
        for (key, value) in profile.values() {
            assert!(!value.source.trim().is_empty(), "{name}: {key}");
        }
        Machine::new(profile, 64).unwrap().fabric().unwrap();
    }
}

#[test]
fn nonsense_is_refused_and_the_key_is_named() {
    for (from, to, named) in [
        ("value = 10.0", "value = -10.0", "put-start-us"),
        ("value = 100.0", "value = 0.0", "detection-ms"),
        ("value = 1.0, source = \"not used", "value = 0.0, source = \"", "network-bandwidth-share"),
        ("value = 1.0, source = \"not used", "value = 1.5, source = \"", "network-bandwidth-share"),
        ("processors = { value = 4.0", "processors = { value = 4.5", "host.processors"),
        ("value = 240.0", "value = 0.0", "write-mib-s"),
        ("value = 20.0", "value = 20000.0", "noise-us"),
        ("value = 8.0", "value = inf", "fork-exec-ms"),
        ("wake-us", "wake-ms", "wake-ms"),
    ] {
        let error = Profile::from_toml(&ES40.replacen(from, to, 1)).expect_err(to);
        assert!(error.to_string().contains(named), "{to}: {error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_profile_is_of_one_machine() {
    let none = ES40.replace("model = \"es40-qsnet\"", "");
    assert!(matches!(Profile::from_toml(&none), Err(ProfileError::OneMachine)));
    let unknown = ES40.replace("es40-qsnet\"", "myrinet\"");
    let error = Profile::from_toml(&unknown).expect_err("no such model");
    assert!(error.hint().contains("es40-qsnet"), "{}", error.hint());
    assert!(matches!(Profile::builtin("myrinet"), Err(ProfileError::Unknown(_))));
}

#[test]
fn a_user_describes_her_own_machine() {
    let own = storm_model::builtin("infiniband").unwrap().to_toml().unwrap();
    let own = own.replace("[host", "[machine.host").replace("[protocol", "[machine.protocol");
    let own = own.replace("[network", "[machine.network");
    let own = own.replace("\"infiniband\"", "\"mine\"");
    let ours = ES40.replace("model = \"es40-qsnet\"", "");
    let profile = Profile::from_toml(&format!("[machine]\n{own}\n{ours}")).unwrap();
    assert_eq!(profile.machine.name, "mine");
    let fabric = Machine::new(profile, 8).unwrap().fabric();
    assert!(fabric.is_ok());
}

#[test]
fn machines_of_no_nodes_or_too_many_are_refused() {
    let machine = |nodes| Machine::new(Profile::builtin("ideal").unwrap(), nodes);
    let error = machine(0).unwrap_err();
    assert!(error.to_string().contains("0 nodes") && !error.hint().is_empty(), "{error}");
    assert!(matches!(machine(1 << 20), Err(MachineError::TooManyNodes { .. })));
    assert!(machine(1 << 16).is_ok());
}
