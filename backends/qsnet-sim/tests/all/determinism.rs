//! One seed, one run: every case of the conformance suite, also with faults, gives the same trace
//! twice, byte for byte.

use std::cell::RefCell;
use std::rc::Rc;
use storm_primitives::conformance::{CASES, SimFactory, suite};
use storm_qsnet_sim::{Load, Machine, Profile};

/// The traces of all clusters of a case.
fn traces(profile: &'static str, case: &str, seed: u64) -> String {
    let all = Rc::new(RefCell::new(String::new()));
    let into = all.clone();
    let factory = SimFactory::on(move |nodes| {
        let profile = Profile::builtin(profile).expect("built in");
        let load = Load { cpu: true, network: true };
        let machine = Machine::new(profile, nodes.max(1)).expect("small").under(load);
        machine.fabric().expect("a built-in profile makes sense")
    })
    .tracing(move |trace| into.borrow_mut().push_str(trace));
    let verdict = suite::run_case(&factory, seed, case);
    assert!(matches!(verdict, suite::Verdict::Passed), "{case}: {verdict:?}");
    all.take()
}

fn assert_deterministic(profile: &'static str) {
    let mut differ = 0;
    for case in CASES.iter().filter(|case| !case.contains("death_steps")) {
        let first = traces(profile, case, 7);
        assert_eq!(first, traces(profile, case, 7), "{case} on {profile}");
        differ += usize::from(first != traces(profile, case, 8));
    }
    assert!(differ > 0, "no seed makes a difference on {profile}");
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte_on_qsnet() {
    assert_deterministic("es40-qsnet");
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte_on_ethernet() {
    assert_deterministic("gigabit-ethernet");
}
