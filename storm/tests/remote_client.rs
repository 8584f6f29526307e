//! Users on other hosts, on loopback. With a key, everything that works over the socket works as
//! the key's user. A client without a valid key is refused and costs little. Tests with jobs of two
//! users need root.

mod scratch;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use scratch::hosts::skipped;
use scratch::keyed_cluster::KeyedCluster;
use scratch::{Scratch, stderr, stdout, told};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use storm_mm::api::{Client, ErrorCode, ManagerRequest, Reply};
use storm_rm::JobId;
use storm_session::{ClientKey, ClusterKey};

/// Connections that send nothing, or half of an opening.
const HALF_OPEN: usize = 1000;
/// Users that every Debian has, with keys in `alice.key` and `bob.key`.
const ALICE: &str = "daemon";
const BOB: &str = "games";
/// A user whose key, `mallory.key`, is revoked.
const MALLORY: &str = "nobody";

/// A cluster with an address for users, and their keys.
struct Remote {
    cluster: KeyedCluster,
    address: String,
}

impl Remote {
    /// `None`, with a message, on a host that cannot run jobs of several users.
    fn start() -> Option<Remote> {
        if !geteuid().is_root() {
            skipped("users of other hosts", "jobs of several users need root");
            return None;
        }
        let further = format!("[clients]\nlisten = \"127.0.0.1:0\"\nrevoked = [\"{MALLORY}\"]\n");
        let cluster = KeyedCluster::start(&further);
        for (file, user) in [("alice", ALICE), ("bob", BOB), ("mallory", MALLORY)] {
            let made = format!("key client --user {user} --output {file}.key cluster.key");
            cluster.scratch.prints(&made);
        }
        let address = cluster.logged("clients").expect("it says where");
        Some(Remote { cluster, address })
    }

    fn scratch(&self) -> &Scratch {
        &self.cluster.scratch
    }

    /// The options for a user.
    fn of(&self, file: &str) -> String {
        format!("--manager {} --key {file}.key", self.address)
    }

    /// `storm VERB` as a user, with further words after the options.
    fn command(&self, verb: &str, file: &str, rest: &[&str]) -> Command {
        let words = format!("{verb} {}", self.of(file));
        let mut command = self.scratch().storm(words.split_whitespace());
        command.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn does(&self, verb: &str, file: &str, rest: &[&str]) -> Output {
        self.command(verb, file, rest).output().expect("storm starts")
    }

    /// Starts a job that reports that it runs, and continues; returns its number.
    fn running(&self, at: &str, user: &str) -> (Child, u64) {
        let words = format!("run {at} --chdir / sh -c");
        let mut command = self.scratch().storm(words.split_whitespace());
        command.arg("echo begun; exec sleep 600").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().expect("storm starts");
        let mut begun = [0; 6];
        run.stdout.as_mut().expect("a pipe").read_exact(&mut begun).expect("it runs");
        let listed = self.scratch().json(&format!("queue {} --user {user}", self.cluster.at));
        let job = listed.as_array().and_then(|jobs| jobs.last()).expect("it is listed");
        (run, job["id"].as_u64().expect("a number"))
    }

    fn state(&self, job: u64) -> String {
        let shown = self.scratch().json(&format!("show {job} {}", self.cluster.at));
        shown["state"].as_str().expect("a state").to_owned()
    }
}

#[test]
fn every_request_works_with_a_key_as_the_keys_user() {
    let Some(remote) = Remote::start() else { return };
    let alice = User::from_name(ALICE).expect("a database").expect("of any Debian");
    let script = "id -u; id -g; id -G; echo oops >&2; cat; exit 7";
    let mut command = remote.command("run", "alice", &["--chdir", "/", "sh", "-c", script]);
    let mut run = command.spawn().expect("storm starts");
    let mut input = run.stdin.take().expect("a pipe");
    let text = "some input\n".repeat(100_000);
    let writer = std::thread::spawn({
        let text = text.clone();
        move || input.write_all(text.as_bytes())
    });
    let done = run.wait_with_output().expect("our child");
    writer.join().expect("no panic").expect("it reads");
    assert_eq!(done.status.code(), Some(7), "{}", told(&done));
    let groups = Command::new("id").args(["-G", ALICE]).output().expect("id is there");
    let wanted = format!("{}\n{}\n{}{text}", alice.uid, alice.gid, stdout(&groups));
    assert!(stdout(&done) == wanted, "{}", told(&done));
    assert!(stderr(&done).contains("oops"), "{}", told(&done));
    // The other verbs find the cluster by the environment and the default key file.
    let config = remote.scratch().work().join("config/storm");
    fs::create_dir_all(&config).expect("made");
    fs::copy(remote.scratch().work().join("alice.key"), config.join("client.key")).expect("ours");
    let by_default = |words: &str| {
        let mut command = remote.scratch().storm(words.split_whitespace());
        command.env("STORM_MANAGER", &remote.address);
        let done = command.env("XDG_CONFIG_HOME", config.parent().expect("made")).output();
        let done = done.expect("storm starts");
        assert!(done.status.success(), "{words}: {}", told(&done));
        stdout(&done)
    };
    let job = by_default("submit -q --chdir / --output /dev/null sleep 600");
    let job = job.trim();
    assert!(by_default(&format!("queue --json --user {ALICE}")).contains(ALICE));
    assert_eq!(by_default(&format!("queue --json --user {BOB}")).trim(), "[]");
    assert!(by_default(&format!("show {job}")).contains("sleep"));
    assert!(by_default(&format!("explain {job}")).contains(job));
    assert!(by_default("nodes").contains("n2"));
    by_default(&format!("cancel {job}"));
    // A job's variables lead to its cluster from every directory.
    let told = by_default("run --chdir / printenv STORM_MANAGER STORM_CLIENT_KEY");
    let key = config.join("client.key");
    assert_eq!(told, format!("{}\n{}\n", remote.address, key.display()));
    remote.scratch().wait_for(&format!("hist {}", remote.of("alice")), |jobs| {
        let jobs = jobs.as_array()?;
        jobs.iter().any(|job| job["state"] == "CANCELLED").then_some(())
    });
}

#[test]
fn a_program_is_sent_whole_and_a_job_that_is_interrupted_is_cancelled() {
    let Some(remote) = Remote::start() else { return };
    let program = remote.scratch().work().join("large");
    let mut content = b"#!/bin/sh\nwc -c < \"$0\"\nexit\n".to_vec();
    content.resize(9 << 20, b'#');
    fs::write(&program, content).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).expect("ours");
    let done = remote.does("run", "alice", &["--chdir", "/", "./large"]);
    assert_eq!(stdout(&done), format!("{}\n", 9 << 20), "{}", told(&done));
    let (run, job) = remote.running(&remote.of("alice"), ALICE);
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).expect("our child");
    let done = run.wait_with_output().expect("our child");
    assert_eq!(done.status.code(), Some(130), "{}", told(&done));
    assert_eq!(remote.state(job), "CANCELLED");
}

#[test]
fn a_job_goes_on_when_its_client_disappears_as_over_the_socket() {
    let Some(remote) = Remote::start() else { return };
    for (at, user) in [(remote.of("alice"), ALICE), (remote.cluster.at.clone(), "root")] {
        let (mut run, job) = remote.running(&at, user);
        run.kill().expect("our child");
        run.wait().expect("our child");
        let signalled = format!("cancel {at} {job} --signal WINCH");
        remote.scratch().prints(&signalled);
        assert_eq!(remote.state(job), "RUNNING", "{at}");
        remote.scratch().prints(&format!("cancel {at} {job}"));
        let ended = format!("show {job} {at}");
        remote.scratch().wait_for(&ended, |job| (job["state"] == "CANCELLED").then_some(()));
    }
}

/// The replies to a user's requests about a job.
fn asked(address: &str, key: &ClientKey, requests: Vec<ManagerRequest>) -> Vec<Reply> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client::connect_remote(address, key).await.expect("the right key");
        let mut replies = Vec::new();
        for request in requests {
            let refused = |error: storm_mm::api::ClientError| match error {
                storm_mm::api::ClientError::Refused(error) => Reply::Error { error },
                other => panic!("{other}"),
            };
            replies.push(client.call(request).await.unwrap_or_else(refused));
        }
        replies
    })
}

fn is_refused(reply: &Reply) -> bool {
    match reply {
        Reply::Error { error } => error.code == ErrorCode::NotPermitted,
        Reply::Cancelled { jobs } => jobs.iter().all(|job| {
            job.error.as_ref().is_some_and(|error| error.code == ErrorCode::NotPermitted)
        }),
        _ => false,
    }
}

#[test]
fn one_user_cannot_cancel_signal_read_or_feed_the_job_of_another() {
    let Some(remote) = Remote::start() else { return };
    let (mut run, job) = remote.running(&remote.of("bob"), BOB);
    let refused = remote.does("cancel", "alice", &[&job.to_string()]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(told(&refused).contains("belongs to another user"), "{}", told(&refused));
    let text = fs::read_to_string(remote.scratch().work().join("alice.key")).expect("ours");
    let alice: ClientKey = text.parse().expect("as written");
    let id = JobId(job);
    let replies = asked(
        &remote.address,
        &alice,
        vec![
            ManagerRequest::Cancel { jobs: vec![id], signal: None, states: Vec::new() },
            ManagerRequest::Cancel { jobs: vec![id], signal: Some(9), states: Vec::new() },
            ManagerRequest::Attach { job: id },
            ManagerRequest::Input {
                job: id,
                data: b"rm -rf /\n"[..].into(),
                eof: true,
                resent_from: None,
                ask: None,
            },
            ManagerRequest::Shutdown,
        ],
    );
    assert!(replies.iter().all(is_refused), "{replies:?}");
    assert_eq!(remote.state(job), "RUNNING");
    // A key for root must be requested explicitly, and then is root's.
    let scratch = remote.scratch();
    let plain = scratch.does("key client --user root --output root.key cluster.key");
    assert!(!plain.status.success() && stderr(&plain).contains("--allow-root"), "{}", told(&plain));
    scratch.prints("key client --user root --allow-root --output root.key cluster.key");
    scratch.prints(&format!("cancel {} {job}", remote.of("root")));
    assert_ne!(run.wait().expect("our child").code(), Some(0));
    assert_eq!(remote.state(job), "CANCELLED");
}

#[test]
fn a_missing_or_wrong_key_is_reported_on_both_sides() {
    let Some(remote) = Remote::start() else { return };
    let scratch = remote.scratch();
    let refused = |file: &str, texts: &[&str]| {
        let done = remote.does("nodes", file, &[]);
        assert_eq!(done.status.code(), Some(1), "{}", told(&done));
        for text in texts {
            assert!(stderr(&done).contains(text), "no {text:?}: {}", told(&done));
        }
    };
    refused("missing", &["missing.key", "storm key client"]);
    refused("cluster", &["storm-client-key-1", "storm key client"]);
    scratch.prints("key new other.cluster");
    scratch.prints(&format!("key client --user {ALICE} --output other.key other.cluster"));
    refused("other", &["client key was made from", "administrator"]);
    // The key of one user with the name of another.
    let path = |name: &str| scratch.work().join(name);
    let alice = fs::read_to_string(path("alice.key")).expect("ours");
    fs::copy(path("alice.key"), path("claimed.key")).expect("ours");
    fs::write(path("claimed.key"), alice.replace(ALICE, "root")).expect("ours");
    refused("claimed", &["not one of root", "administrator"]);
    refused("mallory", &["does not count any more"]);
    let nodes = format!("nodes --manager {} --key alice.key", remote.cluster.address);
    let node_port = scratch.does(&nodes);
    assert!(stderr(&node_port).contains("not the one for nodes"), "{}", told(&node_port));
    let log = remote.cluster.manager_log();
    for said in ["made from cluster key", "does not prove that it is root", "does not count"] {
        assert!(log.contains(said), "no {said:?}: {log}");
    }
    let cluster: ClusterKey = {
        let text = fs::read_to_string(path("cluster.key")).expect("ours");
        text.parse().expect("as written")
    };
    let secret = cluster.to_text();
    let secret = secret.split_whitespace().last().expect("three words");
    assert!(!alice.contains(secret) && !log.contains(secret));
    let shown = scratch.prints("key show alice.key");
    assert!(shown.contains(ALICE) && !shown.contains(&alice[alice.len() - 20..]), "{shown}");
    assert!(remote.does("nodes", "alice", &[]).status.success());
}

#[test]
fn a_thousand_half_open_connections_are_no_burden() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
    let Some(mut remote) = Remote::start() else { return };
    let before = remote.cluster.open_files();
    let opening = b"\xffSTORMC\x01half of an opening";
    let mut half_open = Vec::new();
    for number in 0..HALF_OPEN {
        let mut stream = TcpStream::connect(&remote.address).expect("it listens");
        // The connection may have been dropped in favour of another.
        let _ = stream.write_all(&opening[..number % opening.len()]);
        half_open.push(stream);
    }
    let at = remote.cluster.at.clone();
    let local = remote.scratch().prints(&format!("run {at} -n 4 echo here"));
    assert_eq!(local, "here\n".repeat(4));
    let done = remote.does("run", "alice", &["--chdir", "/", "echo", "there"]);
    assert_eq!(stdout(&done), "there\n", "{}", told(&done));
    let open = remote.cluster.open_files();
    assert!(open < before + HALF_OPEN / 2, "{open} open files, {before} before");
    drop(half_open);
    remote.cluster.await_open_files(before);
    let logged = remote.cluster.manager_log().matches("of another host was refused").count();
    assert!((1..10).contains(&logged), "{logged} lines");
}
