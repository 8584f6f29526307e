//! A real cluster of five hosts, each a network namespace of this machine, runs the
//! main job, and every rank is where it should be. Where the hosts cannot be made, the
//! test says so.

mod scratch;

use scratch::hosts::Hosts;
use scratch::{Scratch, sweep3d, told};

const NODES: usize = 4;

#[test]
fn five_hosts_run_the_main_job() {
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, NODES, 2) else { return };
    let at = hosts.at();
    let sweep = sweep3d();
    let done = scratch.does(&format!("run {at} -n 8 {} --verify", sweep.display()));
    assert!(done.status.success(), "{}", told(&done));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("answer: OK"), "{said}");
    let places = scratch.prints(&format!("run {at} -n 4 -N 4 printenv STORM_NODE_ADDR"));
    let mut addresses: Vec<&str> = places.lines().collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5"]);
}
