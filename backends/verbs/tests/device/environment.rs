//! Faulty hosts: every missing or wrong part is reported.

use crate::pair::{CHILD, config, run};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use storm_backend_tcp::fabric::{End, Fabric};
use storm_backend_tcp::wire::Lane;
use storm_backend_verbs::{VerbsConfig, VerbsFabric, inventory};

/// Set for the process that only opens the device and reports the result.
const REPORT_VARIABLE: &str = "STORM_VERBS_TEST_REPORT";
/// The path of the library on the test machine.
const LIBRARY: &str = "/lib/x86_64-linux-gnu/libibverbs.so.1";

/// Runs a shell command, which must succeed.
pub(crate) fn shell(line: &str) {
    let status = start_shell(line).wait().expect("a shell");
    assert!(status.success(), "{line}");
}

/// Starts a shell command.
pub(crate) fn start_shell(line: &str) -> Child {
    // The `ip` that is built into the shell lacks functions.
    let line = format!("alias ip=/sbin/ip rdma=/sbin/rdma\n{line}");
    Command::new("sh").args(["-c", &line]).spawn().expect("a shell")
}

/// Makes the device as at the start of the machine (`vm/init`).
pub(crate) fn make_device() {
    shell("ip link add d0 type dummy; ip link set d0 mtu 4200");
    shell("for host in 1 2 3 4 5 6 7 8; do ip addr add 10.9.0.$host/24 dev d0; done");
    shell("ip link set d0 up; rdma link add rxe0 type rxe netdev d0");
}

/// Keeps the port down until dropped.
pub(crate) struct PortDown;

impl PortDown {
    pub(crate) fn new() -> PortDown {
        shell("ip link set d0 down");
        PortDown
    }
}

impl Drop for PortDown {
    fn drop(&mut self) {
        shell("ip link set d0 up");
    }
}

fn reason(config: VerbsConfig) -> String {
    use std::error::Error as _;
    let error = VerbsFabric::open(config).map(|_| ()).expect_err("it cannot be opened");
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Not a test by itself: [`report`] starts it.
#[test]
fn reporter() {
    match std::env::var(REPORT_VARIABLE).as_deref() {
        Ok("lane") => run(async { println!("REPORT {}", reason_of_lane()) }),
        Ok(_) => run(async { println!("REPORT {}", reason(config(1))) }),
        Err(_) => {}
    }
}

/// The reason why a lane fails on a device that could be opened.
fn reason_of_lane() -> String {
    let fabric = VerbsFabric::open(config(1)).expect("there is enough for this");
    let open = |_| fabric.open(CHILD, Lane::Express, End::Parent);
    let lanes: Result<Vec<_>, _> = (0..8).map(open).collect();
    lanes.map(|_| ()).expect_err("there is not enough for all").to_string()
}

/// The output of a process, started by `prepared`, that opens the device.
fn report(prepared: Command) -> String {
    report_of("device", prepared)
}

/// The output of a process that reports on `what`.
fn report_of(what: &str, mut prepared: Command) -> String {
    let output = prepared.env(REPORT_VARIABLE, what).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| Some(line.split_once("REPORT ")?.1.to_owned()));
    line.unwrap_or_else(|| panic!("no report: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

/// A command that runs this program in a shell after `line`.
fn after(line: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line}; exec \"$0\" \"$@\"")]).arg(own);
    command.args(["--exact", "environment::reporter", "--nocapture", "--test-threads=1"]);
    command
}

#[test]
fn the_devices_are_listed() {
    let devices = inventory().expect("a device");
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].name, "rxe0");
    let port = &devices[0].ports[0];
    assert_eq!((port.number, port.state, port.link_layer), (1, "active", "Ethernet"));
    assert_eq!(port.mtu_bytes, 4096);
}

#[test]
fn a_host_without_the_library() {
    std::fs::rename(LIBRARY, "/tmp/libibverbs").expect("root");
    let said = report(after(":"));
    std::fs::rename("/tmp/libibverbs", LIBRARY).expect("root");
    assert!(said.starts_with("libibverbs.so.1 cannot be loaded; Debian has it in"), "{said}");
}

#[test]
fn a_host_without_a_device() {
    shell("rdma link delete rxe0");
    let said = report(after(":"));
    let listed = inventory().expect("the library works");
    shell("rdma link add rxe0 type rxe netdev d0");
    assert!(said.starts_with("there is no RDMA device"), "{said}");
    assert!(listed.is_empty());
}

#[test]
fn devices_and_addresses_that_are_not_there() {
    run(async {
        let device = Some(String::from("mlx5_0"));
        let said = reason(VerbsConfig { device, ..config(1) });
        assert_eq!(said, "there is no RDMA device \"mlx5_0\"; there are: rxe0");
        let said = reason(VerbsConfig { gid_index: Some(200), ..config(1) });
        assert_eq!(said, "port 1 of rxe0 has no address (GID) number 200");
        let said = reason(VerbsConfig { port: 9, ..config(1) });
        assert!(said.contains("port 9 of rxe0") || said.contains("on rxe0 failed"), "{said}");
    });
}

#[test]
fn a_port_that_is_down() {
    run(async {
        let _down = PortDown::new();
        let said = reason(config(1));
        let expected = "port 1 of rxe0 is down, not active: check its cable or its link";
        assert_eq!(said, expected);
    });
}

#[test]
fn too_little_memory_that_may_be_locked() {
    // The administrator may lock any amount.
    let mut nobody = after("ulimit -l 64");
    nobody.uid(65534).gid(65534);
    let said = report(nobody);
    assert!(said.contains("this process may lock 65536 (RLIMIT_MEMLOCK)"), "{said}");
    assert!(said.contains("LimitMEMLOCK="), "{said}");
}

#[test]
fn too_little_memory_for_another_lane() {
    // Enough for a member's first blocks and some lanes.
    let mut nobody = after("ulimit -l 1500");
    nobody.uid(65534).gid(65534);
    let said = report_of("lane", nobody);
    assert!(said.starts_with("163840 bytes cannot be registered"), "{said}");
    assert!(said.contains("this process may lock 1536000 (RLIMIT_MEMLOCK)"), "{said}");
}
