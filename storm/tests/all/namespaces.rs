//! A real cluster of five hosts, each a network namespace of this machine. The main job runs, every
//! rank is in its place, and no part of a program is readable on the wire. If the hosts cannot be
//! made, the test reports it.

use crate::scratch::hosts::{Hosts, USERS_CONNECT};
use crate::scratch::{Scratch, stdout, sweep3d, told};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

const NODES: usize = 4;

/// Captures all frames that cross the bridge.
struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// Room for a test's traffic, so that nothing must be read meanwhile.
    const ROOM_BYTES: usize = 256 << 20;

    fn tap() -> Wire {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let all = SockProtocol::EthAll;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, all).expect("root may");
        setsockopt(&socket, sockopt::RcvBufForce, &Wire::ROOM_BYTES).expect("root may");
        Wire { socket }
    }

    /// The frames since the last call.
    fn seen(&self) -> Vec<Vec<u8>> {
        let mut block = vec![0; 128 << 10];
        let mut frames = Vec::new();
        while let Ok(len) = recv(self.socket.as_raw_fd(), &mut block, MsgFlags::empty()) {
            frames.push(block[..len].to_vec());
        }
        frames
    }
}

/// A program that consists mostly of this text.
fn marked_program(scratch: &Scratch, marker: &str) -> PathBuf {
    let path = scratch.work().join("marked");
    fs::write(
        &path,
        format!("#!/bin/sh\necho ran\nexit 0\n{}", format!("# {marker}\n").repeat(9000)),
    )
    .expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// Checks that a program is sent to all nodes, and no part of it is seen on the way.
fn nothing_is_shown(scratch: &Scratch, wire: &Wire, at: &str) {
    let marker = format!("the marker of process {}", std::process::id());
    let program = marked_program(scratch, &marker);
    let len = fs::metadata(&program).expect("written").len() as usize;
    wire.seen();
    let said = scratch.prints(&format!("run {at} -n {NODES} -N {NODES} {}", program.display()));
    assert_eq!(said, "ran\n".repeat(NODES));
    let frames = wire.seen();
    let from_mm = [10, 77, 0, 1];
    // IPv4 source addresses after the Ethernet header.
    let ours = frames.iter().filter(|frame| frame.get(26..30) == Some(&from_mm));
    let sent: usize = ours.map(Vec::len).sum();
    assert!(sent > len, "{sent} bytes of the manager were seen, the program has {len}");
    let shows =
        |frame: &&Vec<u8>| frame.windows(marker.len()).any(|text| text == marker.as_bytes());
    assert_eq!(frames.iter().filter(shows).count(), 0, "of {} frames", frames.len());
}

#[test]
fn five_hosts_run_the_main_job() {
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, NODES, 2) else { return };
    let at = hosts.at();
    nothing_is_shown(&scratch, &Wire::tap(), &at);
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

/// The marker is in a program, its input and its output. A user on a node's host runs the program.
#[test]
fn a_user_on_another_host_runs_a_program_and_nothing_of_it_is_shown() {
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, 2, 1) else { return };
    scratch.prints("key client --user daemon --output daemon.key cluster.key");
    let marker = format!("the marker of process {}", std::process::id());
    let program = marked_program(&scratch, &marker);
    fs::write(&program, format!("#!/bin/sh\nid -un\ncat\nexit 3\n# {marker}\n")).expect("ours");
    let wire = Wire::tap();
    wire.seen();
    // The host of the second node, where rank 0 does not run.
    let at = format!("--manager {USERS_CONNECT} --key daemon.key");
    let words = format!("run {at} --chdir / {}", program.display());
    let mut command = hosts.command(&scratch, 2, &words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().expect("storm starts");
    let mut input = run.stdin.take().expect("a pipe");
    input.write_all(format!("{marker}\n").as_bytes()).expect("it reads");
    drop(input);
    let done = run.wait_with_output().expect("our child");
    assert_eq!(done.status.code(), Some(3), "{}", told(&done));
    assert_eq!(stdout(&done), format!("daemon\n{marker}\n"));
    let frames = wire.seen();
    let shows =
        |frame: &&Vec<u8>| frame.windows(marker.len()).any(|text| text == marker.as_bytes());
    assert!(frames.len() > 20, "only {} frames", frames.len());
    assert_eq!(frames.iter().filter(shows).count(), 0, "of {} frames", frames.len());
}
