//! Resource limits of the submitting shell, of the daemons, and of jobs.

use crate::scratch::{STORM, Scratch, stderr, stdout, told};
use std::process::{Command, Output};

/// Removes a capability that containers don't give to root.
const WITHOUT_RESOURCE: [&str; 3] = ["setpriv", "--bounding-set=-sys_resource", "--"];

/// Whether this host has root and the tools of the tests.
fn can_drop_capabilities() -> bool {
    let tools = ["setpriv", "prlimit"].map(|tool| {
        let asked = Command::new(tool).arg("--version").output();
        asked.is_ok_and(|done| done.status.success())
    });
    let can = nix::unistd::geteuid().is_root() && tools == [true, true];
    if !can {
        eprintln!("no root, setpriv or prlimit: NOT tested");
    }
    can
}

fn words(scratch: &Scratch, words: &[&str]) -> Output {
    let (program, arguments) = words.split_first().expect("a program");
    scratch.command(program).args(arguments).output().expect("it starts")
}

/// Regression: jobs ended with 126, "cannot set a resource limit: Operation not permitted".
#[test]
fn a_root_node_that_may_not_raise_limits_gives_what_it_may() {
    if !can_drop_capabilities() {
        return;
    }
    let scratch = Scratch::make();
    let [tool, bounding, rest] = WITHOUT_RESOURCE;
    let up =
        [tool, bounding, rest, "prlimit", "--rss=1000000:2000000", STORM, "up", "--nodes", "1"];
    let up = words(&scratch, &[&up[..], &["--pes", "1"]].concat());
    assert!(up.status.success(), "{}", told(&up));
    let limits = scratch.does("run cat /proc/self/limits");
    assert!(limits.status.success(), "{}", told(&limits));
    let text = stdout(&limits);
    let line = text.lines().find(|line| line.starts_with("Max resident set")).expect("a line");
    assert_eq!(line.split_whitespace().nth(3), Some("2000000"), "{line}");
}

/// Whether this process has CAP_SYS_RESOURCE.
fn may_raise_limits() -> bool {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a set");
    u64::from_str_radix(set.trim(), 16).expect("a number") & 1 << SYS_RESOURCE != 0
}

fn assert_named(done: &Output) {
    assert!(!done.status.success(), "{}", told(done));
    assert!(stderr(done).contains("RLIMIT_FSIZE"), "{}", told(done));
    assert!(!stderr(done).contains("--nodes 4"), "{}", told(done));
}

/// Regression: the hint was to use fewer nodes.
#[test]
fn a_shell_that_allows_small_files_only_has_a_cluster_or_is_told_why_not() {
    let scratch = Scratch::make();
    let script = format!("ulimit -f 1024; exec {STORM} run --nodes 2 -n 2 sh -c 'ulimit -f'");
    let done = words(&scratch, &["sh", "-c", &script]);
    if may_raise_limits() {
        assert!(done.status.success(), "{}", told(&done));
        // The job has the shell's limit.
        assert_eq!(stdout(&done), "1024\n1024\n", "{}", told(&done));
    } else {
        assert_named(&done);
    }
    if can_drop_capabilities() {
        let [tool, bounding, rest] = WITHOUT_RESOURCE;
        assert_named(&words(&scratch, &[tool, bounding, rest, "sh", "-c", &script]));
    }
}

/// Regression: the job was accepted, and killed because it used "more than the 0 MiB".
#[test]
fn memory_in_which_nothing_can_start_is_refused() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 1 --pes 1");
    for asked in ["--mem 1K", "--mem 1000K", "--mem-per-cpu 1K"] {
        let refused = scratch.does(&format!("run {asked} true"));
        assert!(!refused.status.success(), "{asked}: {}", told(&refused));
        assert!(stderr(&refused).contains("1 MiB or more"), "{asked}: {}", told(&refused));
    }
    assert!(scratch.does("run --mem 1M true").status.success());
}
