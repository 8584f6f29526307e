//! Users of nodes' hosts reach the manager of another host through their node, each as themselves.
//! The hosts are network namespaces of this machine. They share its files, so the manager's log
//! says by which host a user came.

use crate::scratch::daemons::Daemons;
use crate::scratch::hosts::Hosts;
use crate::scratch::{STORM, Scratch, stderr, stdout, storm_as, told};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

/// Users that every Debian has.
const ALICE: &str = "daemon";
const BOB: &str = "games";

/// `storm` on a host, as a user of that host, with a clean environment.
fn as_user(hosts: &Hosts, scratch: &Scratch, host: usize, user: &str, words: &str) -> Command {
    let mut command = hosts.on(scratch, host, "setpriv");
    storm_as(&mut command, user, words);
    command
}

fn does(command: &mut Command) -> Output {
    command.output().expect("it starts")
}

/// The output of a command that must succeed.
fn prints(command: &mut Command) -> String {
    let done = does(command);
    assert!(done.status.success(), "{}", told(&done));
    stdout(&done)
}

/// A cluster whose users can reach the sockets of their nodes.
fn cluster(scratch: &Scratch, nodes: usize) -> Option<Hosts> {
    let hosts = Hosts::cluster(scratch, nodes, 2)?;
    let mode = fs::Permissions::from_mode(0o711);
    fs::set_permissions(scratch.work(), mode).expect("ours");
    Some(hosts)
}

/// The addresses from which the manager says that this user came.
fn came_from(scratch: &Scratch, user: &str) -> Vec<String> {
    let log = Daemons::log(scratch, "0");
    let lines = log.lines().filter(|line| line.contains("a client of another host connects"));
    let of_user = lines.filter(|line| line.contains(&format!("user={user} ")));
    let mut from: Vec<String> = of_user
        .filter_map(|line| line.split_once("from=")?.1.split(':').next().map(str::to_owned))
        .collect();
    from.sort_unstable();
    from.dedup();
    from
}

#[test]
fn two_users_of_a_node_submit_follow_feed_and_cancel_each_as_themselves() {
    let scratch = Scratch::make();
    let Some(hosts) = cluster(&scratch, 2) else { return };
    let at = format!("--socket {}", Hosts::relay(&scratch, 2).display());
    let user = |user: &str, words: &str| as_user(&hosts, &scratch, 2, user, words);
    for name in [ALICE, BOB] {
        // Followed and fed: 1 MB of input, and its exit status.
        let words = format!("run {at} --chdir / sh -c");
        let mut command = user(name, &words);
        let mut run =
            command.arg("id -un; cat; exit 7").stdin(Stdio::piped()).spawn().expect("it starts");
        let text = "some input\n".repeat(100_000);
        let mut input = run.stdin.take().expect("a pipe");
        let fed = text.clone();
        let writer = std::thread::spawn(move || input.write_all(fed.as_bytes()));
        let done = run.wait_with_output().expect("our child");
        writer.join().expect("no panic").expect("it reads");
        assert_eq!(done.status.code(), Some(7), "{}", told(&done));
        assert!(stdout(&done) == format!("{name}\n{text}"), "{}", stderr(&done));
        assert_eq!(came_from(&scratch, name), ["10.77.0.3"]);
    }
    // A program that is only here is sent whole.
    let large = scratch.work().join("large");
    let mut content = b"#!/bin/sh\nwc -c < \"$0\"\nexit\n".to_vec();
    content.resize(9 << 20, b'#');
    fs::write(&large, content).expect("written");
    fs::set_permissions(&large, fs::Permissions::from_mode(0o755)).expect("ours");
    let sent = format!("run {at} --chdir / -n 2 -N 2 {}", large.display());
    assert_eq!(prints(&mut user(ALICE, &sent)), format!("{}\n", 9 << 20).repeat(2));
    // Cancelled by its owner, and by nobody else.
    let submit = format!("submit {at} -q --chdir / --output /dev/null sleep 600");
    let job = prints(&mut user(ALICE, &submit));
    let cancel = format!("cancel {at} {job}");
    let refused = does(&mut user(BOB, &cancel));
    assert!(told(&refused).contains("belongs to another user"), "{}", told(&refused));
    let down = does(&mut user(BOB, &format!("down {at}")));
    assert!(!down.status.success(), "{}", told(&down));
    prints(&mut user(ALICE, &cancel));
    prints(&mut user(BOB, &format!("queue {at}")));
    scratch.wait_for(&format!("show {} {}", job.trim(), hosts.at()), |shown| {
        assert_eq!(shown["user"]["name"], ALICE);
        (shown["state"] == "CANCELLED").then_some(())
    });
    // An administrator is one here as well: the node holds the cluster key anyway.
    let job = prints(&mut user(BOB, &submit));
    prints(&mut hosts.command(&scratch, 1, &format!("cancel {at} {job}")));
}

#[test]
fn a_relays_socket_is_the_nodes_and_goes_with_it() {
    let scratch = Scratch::make();
    let Some(hosts) = cluster(&scratch, 1) else { return };
    let socket = Hosts::relay(&scratch, 1);
    let found = fs::metadata(&socket).expect("it is there");
    assert!(found.file_type().is_socket() && found.mode() & 0o777 == 0o666, "{found:?}");
    // The kernel tells users without an id here by this one, which is also that of `nobody`.
    let words = format!("nodes --socket {}", socket.display());
    let refused = does(&mut as_user(&hosts, &scratch, 1, "nobody", &words));
    assert!(stderr(&refused).contains("unmapped user id"), "{}", told(&refused));
    drop(hosts);
    assert!(!socket.exists());
    let left = fs::read_dir(scratch.work().join("n1")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files of the node");
}

/// Starts a job that a user follows through the node of host 2, and waits until it runs. A line of
/// its input ends it.
fn followed(hosts: &Hosts, scratch: &Scratch, at: &str) -> Child {
    let words = format!("run {at} --chdir / sh -c");
    let mut command = as_user(hosts, scratch, 2, ALICE, &words);
    command.arg("echo begun; read line; echo \"$line\"; exit 7").stdin(Stdio::piped());
    let mut run = command.spawn().expect("it starts");
    let mut begun = [0; 6];
    run.stdout.as_mut().expect("a pipe").read_exact(&mut begun).expect("it runs");
    run
}

/// Waits until the client has noted that the manager is back, then ends the job by its input.
fn ends_well(mut run: Child) {
    let mut said = String::new();
    let mut errors = BufReader::new(run.stderr.take().expect("a pipe"));
    while !said.contains("the manager is back") {
        let read = errors.read_line(&mut said).expect("text");
        assert!(read > 0, "{said}");
    }
    run.stdin.take().expect("a pipe").write_all(b"done\n").expect("it reads");
    let done = run.wait_with_output().expect("our child");
    assert_eq!((done.status.code(), stdout(&done).as_str()), (Some(7), "done\n"), "{said}");
}

#[test]
fn a_thousand_silent_connections_of_one_user_are_no_burden_to_others() {
    let scratch = Scratch::make();
    let Some(hosts) = cluster(&scratch, 1) else { return };
    let socket = Hosts::relay(&scratch, 1);
    let before = hosts.open_files(1);
    let mut silent: Vec<UnixStream> =
        (0..1000).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let mut said = String::new();
    silent[999].read_to_string(&mut said).expect("text");
    assert!(said.contains("too-many-clients"), "{said}");
    assert!(hosts.open_files(1) < before + 100, "{before} files before");
    let words = format!("run --socket {} --chdir / id -un", socket.display());
    assert_eq!(prints(&mut as_user(&hosts, &scratch, 1, ALICE, &words)), format!("{ALICE}\n"));
    assert_eq!(came_from(&scratch, "root"), Vec::<String>::new(), "none reached the manager");
    drop(silent);
}

#[test]
fn a_job_on_another_host_submits_to_its_own_cluster() {
    let scratch = Scratch::make();
    let Some(hosts) = cluster(&scratch, 2) else { return };
    // The first job is submitted by the manager's socket, and runs where its path means nothing.
    let inner = format!("{STORM} run --chdir / -n 1 printenv STORM_SOCKET");
    let words = format!("run {} --chdir / -n 2 -N 2 --no-bcast sh -c", hosts.at());
    let mut outer = as_user(&hosts, &scratch, 0, BOB, &words);
    let told = prints(outer.arg(format!("echo $STORM_SOCKET_HOST $STORM_CLUSTER_GIVEN; {inner}")));
    let mut lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let sockets = [1, 2].map(|node| Hosts::relay(&scratch, node).display().to_string());
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines.iter().all(|line| sockets.iter().any(|socket| socket == line)), "{told}");
    assert_eq!(came_from(&scratch, BOB), ["10.77.0.2", "10.77.0.3"]);
    // The user's own choices stay.
    let chosen = format!("run {} --chdir / --export ALL,STORM_SOCKET=/mine printenv", hosts.at());
    let told = prints(as_user(&hosts, &scratch, 0, BOB, &chosen).arg("STORM_SOCKET"));
    assert_eq!(told, "/mine\n");
}

#[test]
fn users_follow_a_manager_that_moves_to_another_port() {
    let scratch = Scratch::make();
    let Some(mut hosts) = cluster(&scratch, 2) else { return };
    let at = format!("--socket {}", Hosts::relay(&scratch, 2).display());
    let run = followed(&hosts, &scratch, &at);
    hosts.restart_manager(&scratch, "10.77.0.1:7118", "10.77.0.1:7119");
    ends_well(run);
    assert_eq!(came_from(&scratch, ALICE), ["10.77.0.3"]);
    // A manager that lets in nobody of other hosts is named with the setting.
    hosts.restart_manager(&scratch, "clients = { listen = \"10.77.0.1:7119\" }", "");
    hosts.caller(&scratch).until_idle(2);
    let refused = does(&mut as_user(&hosts, &scratch, 2, ALICE, &format!("queue {at}")));
    assert!(stderr(&refused).contains("`listen` in [clients]"), "{}", told(&refused));
    let words = format!("run {} --chdir / -n 2 -N 2 printenv STORM_SOCKET", hosts.at());
    let sockets = prints(&mut as_user(&hosts, &scratch, 0, ALICE, &words));
    let is_managers = |socket: &str| format!("--socket {socket}") == hosts.at();
    assert!(sockets.lines().all(is_managers), "jobs keep the way that they were given: {sockets}");
}

#[test]
fn users_find_the_manager_again_when_their_node_manager_was_restarted() {
    let scratch = Scratch::make();
    let Some(mut hosts) = cluster(&scratch, 2) else { return };
    let at = format!("--socket {}", Hosts::relay(&scratch, 2).display());
    let run = followed(&hosts, &scratch, &at);
    hosts.restart_node(&scratch, 2, 2);
    ends_well(run);
}
