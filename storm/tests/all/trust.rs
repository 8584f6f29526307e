//! A cluster with a key, with its daemons as separate processes. A holder of the key can join;
//! others are refused with a reason on both sides, and cost little.

use crate::scratch::keyed_cluster::KeyedCluster;
use crate::scratch::{STORM, Scratch, stderr, told};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn only_who_holds_the_key_gets_in_and_both_sides_say_why() {
    let cluster = KeyedCluster::start("");
    let scratch = &cluster.scratch;
    let ours = scratch.prints("--quiet key show cluster.key");
    let wrong = scratch.prints("--quiet key new wrong.key");
    let (ours, wrong) = (ours.trim(), wrong.trim());
    let refused = scratch.does(&format!("{} --key wrong.key", cluster.node("n3")));
    assert!(!refused.status.success());
    let said = stderr(&refused);
    assert!(said.contains(&format!("the other side has key {ours}, and not {wrong}")), "{said}");
    assert!(said.contains("--key"), "what to try: {said}");
    let refused = scratch.does(&cluster.node("n3"));
    assert!(!refused.status.success());
    let said = stderr(&refused);
    assert!(said.contains(&format!("the cluster has a key ({ours})")), "{said}");
    let log = cluster.manager_log();
    assert!(log.contains(&format!("the peer's key is {wrong}, this cluster's is {ours}")), "{log}");
    assert!(log.contains("the peer shows no key"), "{log}");
    let done = scratch.prints(&format!("run {} -n 4 echo here", cluster.at));
    assert_eq!(done, "here\n".repeat(4));
}

#[test]
fn a_thousand_strangers_are_no_burden_to_a_job() {
    let mut cluster = KeyedCluster::start("");
    let mut job = cluster
        .scratch
        .command(STORM)
        .args(format!("run {} -n 4 sh -c", cluster.at).split_whitespace())
        .arg("echo begun; exec cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("storm starts");
    let mut output = job.stdout.take().expect("a pipe");
    let mut begun = [0; 4 * 6];
    output.read_exact(&mut begun).expect("all ranks run");
    let before = cluster.open_files();
    for number in 0..1000_usize {
        let mut stranger = TcpStream::connect(&cluster.address).expect("it listens");
        let mut said = b"\xffSTORM\0\x01".to_vec();
        said.resize(64, number as u8);
        if number % 2 == 0 {
            said = b"GET / HTTP/1.1\r\n\r\n".repeat(3);
        }
        // The connection may be closed in the middle.
        let _ = stranger.write_all(&said);
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    cluster.await_open_files(before);
    let logged = cluster.manager_log().matches("a connection was refused").count();
    assert!((1..20).contains(&logged), "{logged} lines");
    job.stdin.take().expect("a pipe").write_all(b"the job goes on\n").expect("it reads");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "the job goes on\n");
    assert!(job.wait().expect("our child").success());
}

#[test]
fn beyond_this_host_a_key_is_needed_and_nobody_else_may_read_it() {
    let scratch = Scratch::make();
    let config = "listen = \"0.0.0.0:7117\"\n[[nodes]]\nnames = \"n1\"\npes = 1\n";
    fs::write(scratch.work().join("storm.toml"), config).expect("written");
    let refused = scratch.does("mm --config storm.toml");
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("storm key new"), "{}", told(&refused));
    let refused = scratch.does("nm --mm 192.0.2.1:7117 --name n1 --pes 1 --work-dir n1 --once");
    let said = stderr(&refused);
    assert!(
        !refused.status.success() && said.contains("192.0.2.1:7117 is not a loopback"),
        "{said}"
    );
    scratch.prints("key new cluster.key");
    let again = scratch.does("key new cluster.key");
    assert!(!again.status.success() && stderr(&again).contains("--force"), "{}", told(&again));
    let path = scratch.work().join("cluster.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    let refused = scratch
        .does("nm --mm 127.0.0.1:9 --name n1 --pes 1 --work-dir n1 --once --key cluster.key");
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("chmod 600"), "{said}");
}

#[test]
fn a_kept_cluster_has_a_key_that_only_its_owner_can_read() {
    let scratch = Scratch::make();
    let up = scratch.json("up --nodes 2 --pes 1");
    let directory = up["runtime_dir"].as_str().expect("a path").to_owned();
    let key = format!("{directory}/cluster.key");
    let mode = fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let secret = fs::read_to_string(&key).expect("ours");
    let secret = secret.split_whitespace().last().expect("a key").to_owned();
    let shown = scratch.processes();
    assert!(shown.len() >= 3 && !shown.iter().any(|line| line.contains(&secret)), "{shown:?}");
    scratch.prints("down");
    assert!(!fs::exists(&key).expect("it can be asked"), "gone with its cluster");
}
