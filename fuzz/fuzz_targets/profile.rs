//! Profiles of machines, for the model and for the simulator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::{plant, texts};
use storm_qsnet_sim::Profile;

/// The built-in profiles: the model's and the simulator's additions.
fn built_in() -> Vec<String> {
    let machines = texts("model/profiles");
    let whole = machines.iter().zip(texts("backends/qsnet-sim/profiles"));
    whole.map(|(machine, simulation)| format!("{machine}\n{simulation}")).collect()
}

fuzz_target!(init: plant(built_in()), |text: &str| {
    let Ok(profile) = Profile::from_toml(text) else { return };
    let again = Profile::from_toml(&profile.to_toml()).expect("its own text");
    assert_eq!(again, profile);
});
