//! Starting a keeper: the refused configurations, and the reported capabilities of a node.

use std::fs;

use crate::support::{self, Mechanism, Node, config, is_gone, until};
use storm_pl::{
    Capabilities, CgroupUnusable, Credentials, CredentialsError, Event, Keeper, KeeperConfig,
    StartError, StartMethod,
};

fn refused(change: impl FnOnce(&mut KeeperConfig)) -> StartError {
    let mut config = config(Mechanism::Cgroup, 1);
    change(&mut config);
    Keeper::start(&config).unwrap_err()
}

#[test]
fn a_bad_configuration_is_refused_with_its_reason() {
    let bad_name = refused(|config| config.node = "../n1".to_owned());
    assert!(matches!(bad_name, StartError::Name(name) if name == "../n1"));
    assert!(matches!(refused(|config| config.cluster.clear()), StartError::Name(_)));
    assert!(matches!(refused(|config| config.capacity = 0), StartError::Capacity(0)));
    let missing = StartMethod::Exec { program: "/no/such/program".into(), args: Vec::new() };
    assert!(matches!(refused(|config| config.start = missing), StartError::Spawn(_)));
    let no_keeper = StartMethod::Exec { program: "/bin/true".into(), args: Vec::new() };
    assert!(matches!(refused(|config| config.start = no_keeper), StartError::NotUp(_)));
}

#[test]
fn forking_with_several_threads_is_refused() {
    // The test harness runs each test in a thread of its own.
    let error = refused(|config| config.start = StartMethod::Fork);
    assert!(matches!(error, StartError::Threads(2..)), "{error}");
}

#[test]
fn a_dropped_keeper_ends() {
    let keeper = Keeper::start(&config(Mechanism::Cgroup, 2)).unwrap();
    let (pid, cgroup) = (keeper.pid().0, keeper.cgroup().map(ToOwned::to_owned));
    drop(keeper);
    until("the keeper is gone", || is_gone(pid));
    assert!(cgroup.is_none_or(|path| !path.exists()));
}

#[test]
fn probing_leaves_nothing_and_explains_itself() {
    let capabilities = Capabilities::probe(None);
    if let Ok(parent) = &capabilities.cgroup {
        let probe = format!("storm-probe-{}-", std::process::id());
        // Other tests of this process check capabilities as well.
        until("no directory is left", || {
            let mut entries = std::fs::read_dir(parent).unwrap().flatten();
            !entries.any(|entry| entry.file_name().to_string_lossy().starts_with(&probe))
        });
    }
    let nowhere = Capabilities::probe(Some("/no/such/directory".as_ref()));
    let CgroupUnusable::CannotCreate { errno, .. } = nowhere.cgroup.clone().unwrap_err() else {
        panic!("{nowhere}");
    };
    assert_eq!(errno.0, libc::ENOENT);
    let text = nowhere.to_string();
    assert!(text.contains("signals") && text.contains("/no/such/directory"), "{text}");
}

#[tokio::test]
async fn a_node_falls_back_to_signals_and_says_why() {
    let mut config = config(Mechanism::Cgroup, 1);
    config.cgroup_parent = Some("/no/such/directory".into());
    let keeper = Keeper::start(&config).unwrap();
    assert!(matches!(keeper.capabilities().cgroup, Err(CgroupUnusable::CannotCreate { .. })));
    let mut node = Node::attach(keeper);
    let pads = node.handle.make_pads(2).unwrap();
    let mut ready = Vec::new();
    while ready.len() < 2 {
        match node.next().await {
            Event::Ready { pad } => ready.push(pad),
            other => panic!("{other:?}"),
        }
    }
    ready.sort_unstable();
    assert_eq!(ready, pads);
    assert_eq!(node.handle.waiting(pads[1]).len(), 1);
    node.shut_down().await;
}

#[test]
fn a_configured_parent_is_used() {
    let Ok(own) = Capabilities::probe(None).cgroup else {
        // There is then no cgroup to configure, which only an ordinary user can see.
        return assert_ne!(Credentials::own().uid, 0);
    };
    let parent = own.join(support::unique_cluster());
    fs::create_dir(&parent).unwrap();
    let mut config = config(Mechanism::Cgroup, 1);
    config.cgroup_parent = Some(parent.clone());
    let keeper = Keeper::start(&config).unwrap();
    assert_eq!(keeper.cgroup().and_then(|path| path.parent()), Some(parent.as_path()));
    let pid = keeper.pid().0;
    drop(keeper);
    until("the keeper is gone", || is_gone(pid));
    fs::remove_dir(&parent).unwrap();
}

#[test]
fn users_are_looked_up_with_their_groups() {
    let root = Credentials::lookup(0).unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
    assert!(root.groups.contains(&0));
    let unknown = Credentials::lookup(3_999_999_999);
    assert_eq!(unknown, Err(CredentialsError::Unknown { uid: 3_999_999_999 }));
}
