//! A site whose users know Slurm only: a cluster of hosts, each a network namespace, and an
//! ordinary user of the host `n1` who has Slurm's commands in the path and no key.

use super::hosts::Hosts;
use super::{Scratch, told};
use nix::unistd::User;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A user that every Debian has.
const USER: &str = "daemon";

/// The host on which the user works.
const LOGIN: usize = 1;

/// The cluster and its user.
pub(crate) struct Site {
    pub(crate) scratch: Scratch,
    hosts: Hosts,
    links: PathBuf,
    home: PathBuf,
}

impl Site {
    /// A cluster of this many hosts, scheduled as Slurm's default is. `None`, with a message, if it
    /// cannot be made.
    pub(crate) fn start(nodes: usize, pes: u32) -> Option<Site> {
        let scratch = Scratch::make();
        let settings = "partitions = [{ name = \"main\", sched = \"backfill\" }]";
        let hosts = Hosts::cluster_with(&scratch, nodes, pes, settings)?;
        fs::set_permissions(scratch.work(), fs::Permissions::from_mode(0o711)).expect("ours");
        let [links, home] = ["bin", "home"].map(|name| scratch.work().join(name));
        for directory in [&links, &home] {
            fs::create_dir(directory).expect("made");
        }
        let user = user();
        chown(&home, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
        let made = scratch.storm(["slurm", "links"]).arg(&links).output().expect("storm starts");
        assert!(made.status.success(), "{}", told(&made));
        Some(Site { scratch, hosts, links, home })
    }

    /// The user's directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Uses up the numbers of jobs up to 9009.
    pub(crate) fn pass_small_numbers(&self) {
        for _ in 0..9 {
            let job = self.slurm("sbatch --parsable -H -a 0-1000 -o /dev/null --wrap true");
            let cancelled = self.slurm(&format!("scancel {job}"));
            assert_eq!(cancelled, "", "{job}");
        }
    }

    /// A new directory of the user's.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let directory = self.home.join(name);
        fs::create_dir(&directory).expect("a new name");
        let user = user();
        chown(&directory, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
        directory
    }

    /// A program as the user runs it on the login host, with `tools` first in the path. It ends
    /// after `limit_s` at the latest.
    pub(crate) fn user_runs(&self, tools: &Path, limit_s: u32, program: &Path) -> Command {
        let mut command = self.hosts.on(&self.scratch, LOGIN, "setpriv");
        let user = user();
        command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid)]);
        let path = format!("PATH={}:{}:/usr/bin:/bin", tools.display(), self.links.display());
        let home = format!("HOME={}", self.home.display());
        let socket = format!("STORM_SOCKET={}", Hosts::relay(&self.scratch, LOGIN).display());
        command.args(["--init-groups", "env", "-i", &path, &home, &socket]);
        command.args([format!("USER={USER}"), format!("LOGNAME={USER}"), "LANG=C.UTF-8".into()]);
        // The hosts have one name: Hydra must not connect to it.
        command.arg("HYDRA_IFACE=eth0");
        command.args(["timeout", "--kill-after=5", &limit_s.to_string()]).arg(program);
        command.current_dir(&self.home);
        command
    }

    /// The output of a command of Slurm's, run by the user.
    pub(crate) fn slurm(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let program = self.links.join(words.next().expect("a command"));
        let mut command = self.user_runs(&self.links, 60, &program);
        let done: Output = command.args(words).output().expect("it starts");
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    }
}

fn user() -> User {
    User::from_name(USER).expect("a database").expect("of any Debian")
}
