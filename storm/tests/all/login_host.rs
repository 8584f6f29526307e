//! Users of a login host, on loopback: `storm relay` lets them in by the key of its host, each as
//! themselves. Nobody is root or an administrator by it. Root is needed, to be several users.

use crate::scratch::daemons::Daemons;
use crate::scratch::hosts::skipped;
use crate::scratch::keyed_cluster::KeyedCluster;
use crate::scratch::{stderr, stdout, storm_as, told};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use storm_session::{DoorKey, connect_by_door};
use tokio::io::AsyncReadExt;

/// Users that every Debian has. The second is an administrator of the cluster.
const ALICE: &str = "daemon";
const ADMIN: &str = "games";

/// A cluster with an address for users, and a login host.
struct LoginHost {
    cluster: KeyedCluster,
    address: String,
    /// The option that selects its socket.
    at: String,
}

impl LoginHost {
    /// `None`, with a message, on a host that cannot run jobs of several users. `revoked` are
    /// further lines of `[clients]`, for the serial number of the door.
    fn start(revoked: impl Fn(&str) -> String) -> Option<LoginHost> {
        if !nix::unistd::geteuid().is_root() {
            skipped("users of login hosts", "jobs of several users need root");
            return None;
        }
        let cluster = KeyedCluster::start_by(|scratch| {
            scratch.prints("key door --output door.key cluster.key");
            let serial = scratch.prints("--quiet key show door.key");
            let clients =
                format!("[clients]\nlisten = \"127.0.0.1:0\"\n{}", revoked(serial.trim()));
            (format!("admins = [\"{ADMIN}\"]"), clients)
        });
        let address = cluster.logged("clients").expect("it says where");
        let work = cluster.scratch.work();
        fs::set_permissions(work, fs::Permissions::from_mode(0o711)).expect("ours");
        let socket = work.join("login.sock");
        let at = format!("--socket {}", socket.display());
        let mut host = LoginHost { cluster, address, at };
        host.relay("login", "door.key", &socket.display().to_string());
        Some(host)
    }

    /// Starts a relay, which first asks where nobody listens.
    fn relay(&mut self, name: &str, key: &str, socket: &str) {
        let scratch = &self.cluster.scratch;
        let managers = format!("--manager 127.0.0.1:1 --manager {}", self.address);
        let words = format!("relay {managers} --key {key} --socket {socket}");
        self.cluster.daemons.start(scratch, name, scratch.storm(words.split_whitespace()));
        let is_up = || Daemons::log(scratch, name).contains("users of this host are let in");
        self.cluster.daemons.wait_for(scratch, || is_up().then_some(()));
    }

    fn does(&self, user: &str, words: &str) -> Output {
        let mut command = self.cluster.scratch.command("setpriv");
        storm_as(&mut command, user, words);
        command.output().expect("storm starts")
    }

    fn refuses(&self, user: &str, words: &str, why: &str) {
        let done = self.does(user, words);
        assert!(!done.status.success() && stderr(&done).contains(why), "{}", told(&done));
    }
}

#[test]
fn users_of_a_login_host_are_themselves_and_nobody_is_an_administrator() {
    let Some(host) = LoginHost::start(|_| String::new()) else { return };
    let (at, scratch) = (&host.at, &host.cluster.scratch);
    for user in [ALICE, ADMIN] {
        let done = host.does(user, &format!("run {at} --chdir / id -un"));
        assert_eq!(stdout(&done), format!("{user}\n"), "{}", told(&done));
    }
    assert!(host.cluster.manager_log().contains("by_door=true"));
    host.refuses("root", &format!("queue {at}"), "cannot speak for root");
    let submit = format!("submit {at} -q --chdir / --output /dev/null sleep 600");
    let job = stdout(&host.does(ALICE, &submit));
    let cancel = format!("cancel {at} {job}");
    host.refuses(ADMIN, &cancel, "belongs to another user");
    host.refuses(ADMIN, &format!("drain n1 --reason why {at}"), "administrator");
    // On the manager's host the kernel says who it is.
    let done = host.does(ADMIN, &format!("cancel {} {job}", host.cluster.at));
    assert!(done.status.success(), "{}", told(&done));
    // A relay that was changed to speak for root.
    let text = fs::read_to_string(scratch.work().join("door.key")).expect("ours");
    let door: DoorKey = text.parse().expect("as written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let said = runtime.expect("a runtime").block_on(async {
        let root = "root".parse().expect("a name");
        let mut session = connect_by_door(&host.address, &door, &root).await.expect("a door key");
        let mut said = String::new();
        session.read_to_string(&mut said).await.expect("text");
        said
    });
    assert!(said.contains("cannot speak for root"), "{said}");
    assert!(!scratch.prints("key show door.key").contains(&text[text.len() - 20..]));
}

#[test]
fn a_revoked_door_and_that_of_another_cluster_let_nobody_in() {
    let revoke = |serial: &str| format!("revoked-keys = [\"{serial}\"]\n");
    let Some(mut host) = LoginHost::start(revoke) else { return };
    host.refuses(ALICE, &format!("queue {}", host.at), "does not count any more");
    host.cluster.scratch.prints("key new other.cluster");
    host.cluster.scratch.prints("key door --output other.key other.cluster");
    let socket = host.cluster.scratch.work().join("other.sock").display().to_string();
    host.relay("other", "other.key", &socket);
    host.refuses(ALICE, &format!("queue --socket {socket}"), "refuses the key of this host");
}
