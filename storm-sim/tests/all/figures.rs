//! The paper's experiments on the simulated machine, within the bounds that we claim
//! for them. `--example scale` runs larger machines.

use std::time::Duration;
use storm_qsnet_sim::Load;
use storm_sim::Application;
use storm_sim::figures::{GangSetup, LaunchSetup, barrier, gang, launch};
use storm_sim::scenario::{self, RunOptions, Scenario};

/// Nodes of Fig. 8 that a test can afford.
const SIZES: [u32; 6] = [1, 4, 16, 64, 256, 1024];

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// `t_launch_es40_ms` of the expected curve for a number of nodes.
fn expected_launch_ms(text: &str, nodes: u32) -> f64 {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = header.iter().position(|name| *name == "t_launch_es40_ms").expect("the column");
    let row = lines.find(|cells| cells[0] == nodes.to_string());
    row.unwrap_or_else(|| panic!("no row of {nodes} nodes"))[column].parse().expect("a number")
}

#[test]
fn a_simulated_launch_is_within_5_percent_of_fig_8() {
    let Some(text) = storm_reference::read("expected/fig8.csv") else { return };
    for nodes in SIZES {
        let expected = expected_launch_ms(&text, nodes);
        let total = ms(launch(&LaunchSetup::of_paper(nodes)).expect("a launch").total);
        let error = total / expected - 1.0;
        assert!(error.abs() <= 0.05, "{nodes} nodes: {total:.1} ms, expected {expected:.1}");
    }
}

#[test]
fn launches_under_load_are_within_25_percent_of_fig_2() {
    for (load, total_ms) in [(Load::CPU, 1000.0), (Load::NETWORK, 1500.0)] {
        let setup = LaunchSetup { load, ..LaunchSetup::of_paper(64) };
        let total = ms(launch(&setup).expect("a launch").total);
        println!("{load:?}: {total:.0} ms");
        assert!((total / total_ms - 1.0).abs() <= 0.25, "{load:?}: {total:.0} ms");
    }
}

#[test]
fn a_barrier_grows_by_6_us_over_1024_nodes() {
    let us = |nodes| {
        let point = barrier("es40-qsnet", nodes, 1).expect("a barrier");
        point.latency.as_secs_f64() * 1e6
    };
    let growth = us(1024) - us(1);
    assert!((5.0..=7.0).contains(&growth), "{growth:.1} us");
}

fn setup(quantum: Duration, mpl: u32, nodes: u32) -> GangSetup {
    GangSetup {
        profile: "es40-qsnet".to_owned(),
        nodes,
        pes: 2,
        mpl,
        quantum,
        application: Application::Wavefront {
            iterations: 10,
            blocks: 10,
            block_time: Duration::from_millis(1),
            message_bytes: 4096,
        },
        limit: Duration::from_secs(600),
        seed: 1,
    }
}

#[test]
fn gang_scheduling_is_flat_from_2_ms_and_breaks_down_below_300_us() {
    let at = |us| gang(&setup(Duration::from_micros(us), 2, 32)).expect("a run");
    let long = ms(at(50_000).runtime);
    let short = at(2_000);
    let slower = ms(short.runtime) / long - 1.0;
    assert!(slower <= 0.02, "2 ms: {:.1} ms, 50 ms: {long:.1} ms", ms(short.runtime));
    assert!(short.strobes * 100 >= short.strobes_due * 95, "{short:?}");
    let broken = at(150);
    assert!(broken.over && broken.strobes * 100 < broken.strobes_due * 80, "{broken:?}");
}

/// Regression: a strobe cost the ranks no time, even when they left the node manager no processor.
/// A strobe must lengthen a run in slices of Q by the factor Q / (Q - cost). In slices shorter than
/// its cost of 300 us, the ranks make no progress.
#[test]
fn a_node_manager_without_a_processor_takes_that_of_a_rank() {
    let of = |us, mpl, limit| {
        let quantum = Duration::from_micros(us);
        gang(&GangSetup { pes: 4, limit, ..setup(quantum, mpl, 8) }).expect("a run")
    };
    let alone = of(1_000, 1, Duration::from_secs(60)).runtime;
    let limit = alone * 2 * 3;
    let times = |us| of(us, 2, limit).runtime.div_duration_f64(alone);
    // 300 us to take up a strobe, and 20 us between the stop and the start of rows.
    for us in [1_000, 2_000, 10_000] {
        let expected = us as f64 / (us as f64 - 320.0);
        let found = times(us);
        assert!((found / expected - 1.0).abs() < 0.06, "{us} us: {found:.3} {expected:.3}");
    }
    let broken = of(200, 2, limit);
    assert!(!broken.over, "{broken:?}");
}

/// A scenario with packet-level simulation runs, with the same results.
#[test]
fn a_scenario_is_the_same_packet_by_packet() {
    let run = |fidelity: &str| {
        let text = format!(
            "[machine]\nprofile = \"es40-qsnet\"\nnodes = 4\n{fidelity}\n[[job]]\nname = \"a\"\n\
             binary-mib = 1.0\napplication = {{ kind = \"compute\", time = \"1ms\" }}\n"
        );
        let scenario = Scenario::parse(&text).expect("a scenario");
        let outcome = scenario::run(&scenario, RunOptions::default()).expect("it runs");
        format!("{:?}", outcome.report.jobs)
    };
    let aggregated = run("");
    assert_eq!(run("fidelity = \"packet\""), aggregated);
    assert_eq!(run("fidelity = \"aggregated\""), aggregated);
}

#[test]
fn runtime_is_flat_over_nodes_and_multiprogramming_level() {
    let application = Application::bulk_synchronous(1_000, Duration::from_millis(5));
    let runtime = |mpl, nodes| {
        let setup = GangSetup {
            application: application.clone(),
            ..setup(Duration::from_millis(50), mpl, nodes)
        };
        ms(gang(&setup).expect("a run").runtime)
    };
    let alone = runtime(1, 32);
    for (mpl, nodes) in [(1, 1), (1, 64), (2, 1), (2, 8), (2, 64), (4, 32), (8, 32)] {
        let taken = runtime(mpl, nodes);
        let error = taken / alone - 1.0;
        assert!(
            error.abs() <= 0.02,
            "{mpl} jobs on {nodes} nodes: {taken:.1} ms, {alone:.1} alone"
        );
    }
}
