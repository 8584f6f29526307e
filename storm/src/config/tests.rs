//! The meaning of a configuration, and the messages about a wrong one.

use super::*;
use std::time::Duration;
use storm_sched::NodeSpec;

const GOOD: &str = r#"
cluster = "lab"
listen = "10.0.0.1:7117"
security = { key-file = "/etc/storm/cluster.key" }

[[nodes]]
names = "n[1-4]"
pes = 16

[[nodes]]
names = "big1"
pes = 64

[[partitions]]
name = "main"
nodes = "n[1-4]"
sched = "gang"
quantum = "2ms"

[[partitions]]
name = "batch"
nodes = "big1"
sched = "fcfs"
default = true
"#;

const ACCOUNT: &str = "\n[[accounts]]\nname = \"physics\"\n";
const QOS: &str = "\n[[qos]]\nname = \"high\"\n";
const GOOD_LOOPBACK: &str = "[[nodes]]\nnames = \"n1\"\npes = 1\n";

#[test]
fn users_on_other_hosts_are_let_in_where_it_says() {
    let config = MmConfig::parse(&format!(
        "{GOOD}\n[clients]\nlisten = \"10.0.0.1:7118\"\nrevoked = [\"mallory\"]\n\
         revoked-keys = [\"00112233445566ff\"]\n"
    ));
    let clients = config.expect("it is right").clients;
    assert_eq!(clients.listen, Some(([10, 0, 0, 1], 7118).into()));
    let revoked = clients.revoked().expect("it is right");
    assert_eq!((revoked.users.len(), revoked.keys.len()), (1, 1));
    assert_eq!(MmConfig::parse(GOOD).expect("it is right").clients.listen, None);
}

#[test]
fn nodes_are_numbered_and_partitions_resolved() {
    let plan = MmConfig::parse(GOOD).and_then(|config| config.plan()).expect("it is right");
    assert_eq!(plan.nodes.len(), 5);
    assert_eq!(plan.nodes[4], NodeSpec::new("big1", 64));
    assert_eq!(plan.partitions[0].nodes, [0, 1, 2, 3]);
    assert_eq!(plan.partitions[0].params.quantum_us.duration(), Duration::from_millis(2));
    assert!(!plan.partitions[0].default && plan.partitions[1].default);
}

#[test]
fn nodes_have_memory_and_features() {
    let text = GOOD.replace("pes = 64", "pes = 64\nmemory = \"1TiB\"\nfeatures = [\"gpu\"]");
    let plan = MmConfig::parse(&text).and_then(|config| config.plan()).expect("it is right");
    let big = NodeSpec::new("big1", 64).with_memory(1 << 40).with_features(["gpu"]);
    assert_eq!(plan.nodes[4], big);
    assert_eq!((plan.nodes[0].memory_bytes, plan.nodes[0].features.len()), (None, 0));
}

#[test]
fn accounts_qualities_and_priorities_are_what_the_manager_is_told() {
    let text = format!(
        "{GOOD}\n[priority]\nage = 5\nfair-share = 7\nhalf-life = \"1d\"\npartitions = {{ main = 2 }}\n\
         {ACCOUNT}parent = \"science\"\nshares = 3\nusers = [1000, {{ user = \"root\", shares = 2 }}]\n\
         [[accounts]]\nname = \"science\"\n{QOS}accounts = [\"physics\"]\nusers = [\"root\"]\n"
    );
    let mut config = MmConfig::parse(&text).expect("it is right");
    config.users = KnownUsers::from_iter([("root".to_owned(), 0)]);
    let plan = config.plan().expect("it is right");
    let priority = plan.service.priority.expect("it is on");
    assert_eq!((priority.weights.age, priority.weights.fair_share), (5, 7));
    assert_eq!(priority.half_life.left_after(Duration::from_secs(86_400)), 0.5);
    assert_eq!(priority.interval, storm_mm::DEFAULT_PRIORITY_INTERVAL);
    let physics = &plan.service.accounts[0];
    assert_eq!((physics.shares, physics.parent.as_deref()), (3, Some("science")));
    assert_eq!(physics.users, [(1000, 1), (0, 2)]);
    assert_eq!((plan.service.accounts[1].shares, plan.service.qos[0].users[0]), (1, 0));
    let plain = MmConfig::parse(GOOD).and_then(|config| config.plan()).expect("it is right");
    assert_eq!(plain.service, storm_mm::ServiceConfig::default());
}

#[test]
fn the_rules_of_classes_are_the_default_where_nothing_is_said() {
    let text = format!("{GOOD}\n[flexible]\ncoarse-min = \"2ms\"\nwait-percent = 75");
    let rules = MmConfig::parse(&text).expect("it is right").flexible.rules();
    let (known, coarse_min) = (storm_nm::classes::ClassRules::default(), Duration::from_millis(2));
    let expected = storm_nm::classes::ClassRules { coarse_min, wait_percent: 75, ..known };
    assert_eq!(rules, expected);
    assert_eq!(MmConfig::parse(GOOD).expect("it is right").flexible.rules(), known);
}

#[test]
fn nodes_alone_make_one_partition() {
    let config = MmConfig::parse("[[nodes]]\nnames = \"n[1-3]\"\npes = 2").expect("it is right");
    let plan = config.plan().expect("it is right");
    assert_eq!(plan.partitions.len(), 1);
    assert_eq!(plan.partitions[0].nodes, [0, 1, 2]);
    assert!(plan.partitions[0].default);
    assert!(config.listen.ip().is_loopback());
}

/// Regression: the manager did not start after a user left the user database, or while a
/// directory was late.
#[test]
fn users_whom_the_host_does_not_know_are_absent_and_named_with_their_lines() {
    let text = format!(
        "admins = [\"root\", \"ann\", 1000]\n{GOOD}{ACCOUNT}users = [{{ user = \"ann\", shares = 2 \
         }}, \"root\"]\n{QOS}users = [\"bob\"]"
    );
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("storm.toml");
    std::fs::write(&file, &text).expect("written");
    let look_up = |names: Vec<String>| {
        assert_eq!(names, ["root", "ann", "ann", "root", "bob"]);
        KnownUsers::from_iter([("root".to_owned(), 0)])
    };
    let config = MmConfig::read_with_users(&file, look_up).expect("they may come later");
    assert_eq!(config.admin_uids(), [0, 1000]);
    let service = config.plan().expect("it is right").service;
    assert_eq!(service.accounts[0].users, [(0, 1)]);
    assert!(service.qos[0].users.is_empty());
    let unknown = |name: &str, named_in, shares| storm_mm::UnknownUser {
        name: name.to_owned(),
        named_in,
        shares,
    };
    let expected = [
        unknown("ann", storm_mm::NamedIn::Admins, 1),
        unknown("ann", storm_mm::NamedIn::Account("physics".to_owned()), 2),
        unknown("bob", storm_mm::NamedIn::Qos("high".to_owned()), 1),
    ];
    assert_eq!(service.unknown_users, expected);
    let lines: Vec<(String, Option<u32>)> = config
        .unknown_users()
        .map(|user| (user.name, super::line::line_of(&text, &user.key)))
        .collect();
    let line_with = |part: &str| {
        let at = text.lines().position(|line| line.contains(part)).expect("it is there");
        Some(at as u32 + 1)
    };
    let expected = [
        ("ann".to_owned(), Some(1)),
        ("ann".to_owned(), line_with("shares = 2")),
        ("bob".to_owned(), line_with("\"bob\"")),
    ];
    assert_eq!(lines, expected);
}

/// Two names turn out to be the same user only when the host is asked.
#[test]
fn a_user_of_two_names_is_named_twice() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("storm.toml");
    std::fs::write(&file, format!("{GOOD}{ACCOUNT}users = [0, \"root\"]")).expect("written");
    let root = |_| KnownUsers::from_iter([("root".to_owned(), 0)]);
    let error = MmConfig::read_with_users(&file, root).expect_err("twice");
    assert!(error.line.is_some() && error.problem.to_string().contains("root is named twice"));
}

#[test]
fn a_host_name_to_listen_on_is_refused_with_the_expected_form() {
    for text in [
        GOOD.replace("10.0.0.1:7117", "head:7117"),
        GOOD.replace("10.0.0.1:7117", "localhost"),
        format!("{GOOD}\n[clients]\nlisten = \"head:7118\""),
    ] {
        let error = MmConfig::parse(&text).expect_err("a name").to_string();
        let told = "an IP address of this host with a port is expected";
        assert!(error.contains("at line") && error.contains(told), "{error}");
    }
}

/// Regression: with no history, a client that waited for a job could not learn how it ended.
#[test]
fn a_manager_remembers_a_job_at_least() {
    let error = MmConfig::parse(&format!("history = 0\n{GOOD}")).expect_err("none").to_string();
    assert!(error.starts_with("history: it must be at least 1"), "{error}");
}

/// Configurations that are refused, with the mistake in each.
fn mistakes() -> Vec<(&'static str, String)> {
    vec![
        ("an unknown key", GOOD.replace("cluster =", "clutser =")),
        ("a table twice", format!("{GOOD}\n[clients]\n\n[clients]\n")),
        ("no nodes", "nodes = []".to_owned()),
        ("a bad list", GOOD.replace("names = \"n[1-4]\"", "names = \"n[1-\"")),
        ("a huge list", GOOD.replace("names = \"n[1-4]\"", "names = \"n[1-900000]\"")),
        ("a node twice", GOOD.replace("\"big1\"\npes", "\"n2\"\npes")),
        ("an unknown node", GOOD.replace("nodes = \"big1\"", "nodes = \"big2\"")),
        ("a node in two partitions", GOOD.replace("nodes = \"big1\"", "nodes = \"big1,n4\"")),
        ("a node in none", GOOD.replace("nodes = \"n[1-4]\"", "nodes = \"n[1-3]\"")),
        ("no processing elements", GOOD.replace("pes = 64", "pes = 0")),
        ("no memory", GOOD.replace("pes = 64", "pes = 64\nmemory = \"lots\"")),
        ("no feature", GOOD.replace("pes = 64", "pes = 64\nfeatures = [\"gpu&fast\"]")),
        ("an unknown policy", GOOD.replace("\"fcfs\"", "\"lottery\"")),
        ("a short quantum", GOOD.replace("\"2ms\"", "\"2us\"")),
        ("a quantum without unit", GOOD.replace("\"2ms\"", "\"2\"")),
        ("a cache beyond the spool", format!("cache-bytes = 2000000000000\n{GOOD}")),
        ("no cache", format!("cache-bytes = 0\n{GOOD}")),
        ("a setting out of range", format!("{GOOD}\n[network]\nfan-out = 0")),
        ("a link for less than a message", format!("{GOOD}\n[network]\nslice-link-bytes = 100")),
        ("hasty classes", format!("{GOOD}\n[flexible]\nwindow-slots = 0")),
        ("an endless answer", format!("{GOOD}\n[flexible]\nanswer = \"2s\"")),
        ("classes forgotten unlearned", format!("{GOOD}\n[flexible]\nreset-slots = 3")),
        ("an unknown class rule", format!("{GOOD}\n[flexible]\nluck = 3")),
        ("impatience", format!("{GOOD}\n[timeouts]\nnode-dead = \"300ms\"")),
        ("no key", GOOD.replace("key-file =", "#").replace("security = {", "#")),
        ("half a change of keys", GOOD.replace("key-file =", "previous-key-file =")),
        (
            "users without a key",
            format!("{}\n[clients]\nlisten = \"127.0.0.1:7118\"", GOOD_LOOPBACK),
        ),
        ("nobody revoked", format!("{GOOD}\n[clients]\nrevoked = [\"a b\"]")),
        ("no key revoked", format!("{GOOD}\n[clients]\nrevoked-keys = [\"alice\"]")),
        ("haste", format!("{GOOD}\n[timeouts]\nnode-hung = \"500ms\"")),
        ("no half-life", format!("{GOOD}\n[priority]\nhalf-life = \"5ms\"")),
        ("an unknown factor", format!("{GOOD}\n[priority]\nluck = 3")),
        ("a partition that counts", format!("{GOOD}\n[priority]\npartitions = {{ all = 1 }}")),
        ("an account twice", format!("{GOOD}{ACCOUNT}{ACCOUNT}")),
        ("an orphan", format!("{GOOD}{ACCOUNT}parent = \"science\"")),
        ("a circle", format!("{GOOD}{ACCOUNT}parent = \"physics\"")),
        ("a user twice", format!("{GOOD}{ACCOUNT}users = [\"root\", 7, \"root\"]")),
        ("a user without name", format!("{GOOD}{ACCOUNT}users = [{{ shares = 1 }}]")),
        ("a bad name", format!("{GOOD}\n[[qos]]\nname = \"high class\"")),
        (
            "two defaults",
            format!("{GOOD}{QOS}default = true\n[[qos]]\nname = \"b\"\ndefault = true"),
        ),
        ("nobody's quality", format!("{GOOD}{QOS}accounts = [\"physics\"]")),
        ("preempts nothing there is", format!("{GOOD}{QOS}preempts = [\"low\"]")),
        ("preempts who never is", format!("{GOOD}{QOS}preempts = [\"b\"]\n[[qos]]\nname = \"b\"")),
        (
            "preempts its own",
            format!("{GOOD}{QOS}preempts = [\"high\"]\npreempt-mode = \"cancel\""),
        ),
        (
            "a circle of qualities",
            format!(
                "{GOOD}{QOS}preempts = [\"b\"]\n[[qos]]\nname = \"b\"\npreempts = [\"c\"]\n\
                 preempt-mode = \"cancel\"\n[[qos]]\nname = \"c\"\npreempts = [\"high\"]\n\
                 preempt-mode = \"requeue\""
            ),
        ),
        ("an unknown mode", format!("{GOOD}{QOS}preempt-mode = \"stop\"")),
        ("no job at all", format!("{GOOD}{QOS}max-jobs-per-user = 0")),
    ]
}

#[test]
fn each_mistake_names_its_key() {
    let said: Vec<String> = mistakes()
        .iter()
        .map(|(what, text)| match MmConfig::parse(text) {
            Ok(_) => format!("{what}: accepted"),
            Err(problem) => format!("{what}: {problem}"),
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

/// Regression: an error about a value that parses named the key, but no line.
#[test]
fn each_mistake_names_its_line() {
    let line = |text: &str, problem: &ConfigProblem| match problem.line_in(text) {
        Some(line) => text.lines().nth(line as usize - 1).unwrap_or_default().to_owned(),
        None => problem.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let found: Vec<String> = mistakes()
        .iter()
        .map(|(what, text)| match MmConfig::parse(text) {
            Ok(_) => format!("{what}: accepted"),
            Err(problem) => format!("{what}: {}", line(text, &problem)),
        })
        .collect();
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn a_mistake_is_reported_with_its_file_and_line() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("storm.toml");
    std::fs::write(&file, GOOD.replace("pes = 64", "pes = 0")).expect("written");
    let error = MmConfig::read(&file).expect_err("a node has an element at least").to_string();
    assert_eq!(error, format!("the configuration {}, line 12, cannot be used", file.display()));
}

/// Regression: the manager took these names, and each node refused them at its start.
#[test]
fn names_that_nodes_refuse_are_refused_here() {
    let long = "n".repeat(101);
    for (text, key) in [
        (format!("cluster = \"my lab\"\n{GOOD_LOOPBACK}"), "cluster: \"my lab\""),
        (format!("cluster = \"\"\n{GOOD_LOOPBACK}"), "cluster: \"\""),
        (
            "[[nodes]]\nnames = \"\u{fc}node\"\npes = 1\n".to_owned(),
            "nodes[0].names: \"\u{fc}node\"",
        ),
        (format!("[[nodes]]\nnames = \"{long}\"\npes = 1\n"), "nodes[0].names: \"nnn"),
    ] {
        let said = MmConfig::parse(&text).expect_err("refused").to_string();
        assert!(said.contains(key) && said.contains("letters of ASCII"), "{said}");
    }
}
