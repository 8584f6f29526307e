//! A node whose disk is full: it cannot take a job's files, and says so.

use crate::scratch::hosts::skipped;
use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout, told};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// More than the disk has.
const PROGRAM_BYTES: usize = 8 << 20;

/// A file system of 2 MiB in memory; gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir(at).expect("made");
        let none = None::<&str>;
        mount(none, at, Some("tmpfs"), MsFlags::empty(), Some("size=2m,mode=711"))
            .is_ok()
            .then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_on_one_node_is_told_and_its_node_runs_what_fits() {
    let mut cluster = RealCluster::without_nodes(2, "");
    let Some(disk) = SmallDisk::mount(&cluster.scratch.work().join("disk")) else {
        return skipped("a full disk on one node", "a file system cannot be mounted: be root");
    };
    cluster.start_node(1);
    let dir = disk.0.join("n2").display().to_string();
    let words = format!("{} --config storm.toml --work-dir {dir}", cluster.node_words(2));
    cluster.start_node_as(2, &words);
    cluster.caller().until_idle(2);
    let program = cluster.scratch.work().join("large");
    let mut content = b"#!/bin/sh\necho ran\nexit\n".to_vec();
    content.resize(PROGRAM_BYTES, b'#');
    fs::write(&program, content).expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("ours");
    let run = |options: &str, program: &str| {
        let caller = cluster.caller();
        caller.storm(&format!("run {options}")).arg(program).output().expect("storm starts")
    };
    let refused = run("-n 2 -N 2", "./large");
    assert!(!refused.status.success(), "{}", told(&refused));
    let said = stderr(&refused);
    assert!(said.contains("n2") && said.contains("does not fit the file system"), "{said}");
    // The other node has room for it, and that one for what is smaller.
    assert_eq!(stdout(&run("-n 2 -N 1", "./large")), "ran\nran\n");
    fs::write(&program, "#!/bin/sh\necho ran\n").expect("written");
    let done = run("-n 2 -N 2", "./large");
    assert_eq!(stdout(&done), "ran\nran\n", "{}", told(&done));
    cluster.end();
    assert!(!disk.0.join("n2").exists(), "files are left");
}
