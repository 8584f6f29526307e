//! The output of Slurm's listing commands about real jobs, byte by byte where a script reads it.

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{stderr, stdout};
use std::fs;

/// Waits until the file `go` is there.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.02; done";

/// A cluster of two nodes with two processing elements each, whose commands are Slurm's.
struct Listings(RealCluster);

impl Listings {
    fn start() -> Listings {
        let cluster = RealCluster::start(2, "");
        Listings(cluster)
    }

    fn submit(&self, options: &str, script: &str) -> u64 {
        let options = format!("--no-bcast {options}");
        self.0.caller().submit(&options, &["/bin/sh", "-c", script]).expect("it is taken")
    }

    /// Standard output, standard error and exit status of one of Slurm's commands.
    fn asks(&self, words: &[&str]) -> (String, String, Option<i32>) {
        let all = ["slurm"].iter().chain(words);
        let socket = self.0.scratch.work().join("mm.sock");
        let done = self.0.scratch.storm(all).env("STORM_SOCKET", socket).output().expect("starts");
        (stdout(&done), stderr(&done), done.status.code())
    }

    /// Standard output of a command that must succeed and complain about nothing.
    fn says(&self, words: &[&str]) -> String {
        let (output, errors, status) = self.asks(words);
        assert_eq!((errors.as_str(), status), ("", Some(0)), "{words:?}");
        output
    }
}

#[test]
fn squeue_lists_jobs_as_slurm_does() {
    let cluster = Listings::start();
    let runs = cluster.submit("-n 2 -N 1 --name runs -t 10", UNTIL_GO);
    let waits = cluster.submit("--hold --name waits -n 3 -N 2 --mem 16M", "exit 0");
    let after = cluster.submit(&format!("-d afterok:{runs} --name after"), "exit 0");
    let array = cluster.submit("--hold --array 0-9%2 --name array", "exit 0");
    cluster.0.caller().until(runs, "RUNNING");
    let format = "%i|%P|%j|%t|%T|%D|%C|%R|%r|%l|%m|%E|%K|%A|%h|%z|%B";
    let on = cluster.says(&["squeue", "-h", "-j", &runs.to_string(), "-o", "%N"]);
    let on = on.trim_end();
    let expected = format!(
        "{waits}|main|waits|PD|PENDING|2|3|(JobHeldUser)|JobHeldUser|UNLIMITED|16M|(null)|N/A|\
         {waits}|OK|*:*:*|n/a\n\
         {after}|main|after|PD|PENDING|1|1|(Dependency)|Dependency|UNLIMITED|0|\
         afterok:{runs}(unfulfilled)|N/A|{after}|OK|*:*:*|n/a\n\
         {array}_[0-9%2]|main|array|PD|PENDING|1|1|(JobHeldUser)|JobHeldUser|UNLIMITED|0|(null)|\
         0-9%2|{array}|OK|*:*:*|n/a\n\
         {runs}|main|runs|R|RUNNING|1|2|{on}|None|10:00|0|(null)|N/A|{runs}|OK|*:*:*|{on}\n"
    );
    assert_eq!(cluster.says(&["squeue", "-h", "-o", format]), expected);
    // A folded array is ten lines if each job is asked for.
    let each = cluster.says(&["squeue", "-h", "-r", "-n", "array", "-o", "%i"]);
    let tasks: String = (0..10).map(|task| format!("{array}_{task}\n")).collect();
    assert_eq!(each, tasks);
    let default = cluster.says(&["squeue", "-j", &waits.to_string()]);
    let user = cluster.says(&["squeue", "-h", "-j", &waits.to_string(), "-o", "%.8u"]);
    assert_eq!(
        default,
        format!(
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n\
             {waits:>18}      main    waits {} PD       0:00      2 (JobHeldUser)\n",
            user.trim_end_matches('\n')
        )
    );
    // Separators of programs, and fields by name.
    let named =
        cluster.says(&["squeue", "-h", "-n", "waits", "-O", "jobid:\u{1f},name:0,state:.9"]);
    assert_eq!(named, format!("{waits}\u{fffd}waits  PENDING\n").replace('\u{fffd}', "\u{1f}"));
    let steps = cluster.says(&["squeue", "-h", "-s", "-o", "%i %j %N"]);
    assert_eq!(steps, format!("{runs}.0 sh {on}\n"));
    fs::write(cluster.0.scratch.work().join("go"), "").expect("written");
    cluster.0.caller().until(after, "COMPLETED");
    let runs = runs.to_string();
    let ended = cluster.says(&["squeue", "-h", "-j", &runs, "-t", "all", "-o", "%t %R"]);
    assert_eq!(ended, format!("CD {on}\n"));
    // Known, but in no state that is listed; and unknown.
    assert_eq!(cluster.says(&["squeue", "-h", "-j", &runs]), "");
    let (_, errors, status) = cluster.asks(&["squeue", "-h", "-j", "999999"]);
    let unknown = "slurm_load_jobs error: Invalid job id specified\n";
    assert_eq!((errors.as_str(), status), (unknown, Some(1)));
    cluster.0.end();
}

#[test]
fn sacct_tells_how_jobs_ended() {
    let cluster = Listings::start();
    let fails = cluster.submit("--name fails", "exit 3");
    let dies = cluster.submit("--name dies", "kill -9 $$");
    let cancelled = cluster.submit("--name cancelled", UNTIL_GO);
    cluster.0.caller().until(fails, "FAILED");
    cluster.0.caller().until(dies, "FAILED");
    cluster.0.caller().until(cancelled, "RUNNING");
    cluster.0.caller().cancel(cancelled);
    cluster.0.caller().until(cancelled, "CANCELLED");
    let uid = nix::unistd::geteuid();
    let jobs = ["-S", "now-1hour", "-E", "now", "-P", "-n", "-o", "JobIDRaw,State,ExitCode"];
    let rows = |more: &[&str]| cluster.says(&[&["sacct"], more, &jobs[..]].concat());
    assert_eq!(
        rows(&["-X", "-M", "all"]),
        format!("{fails}|FAILED|3:0\n{dies}|FAILED|0:9\n{cancelled}|CANCELLED by {uid}|0:0\n")
    );
    assert_eq!(
        rows(&["-j", &cancelled.to_string()]),
        format!("{cancelled}|CANCELLED by {uid}|0:0\n{cancelled}.0|CANCELLED|0:15\n")
    );
    assert_eq!(rows(&["-X", "--name", "dies"]), format!("{dies}|FAILED|0:9\n"));
    let table = cluster.says(&["sacct", "-X", "-j", &fails.to_string(), "-o", "jobid,state%5"]);
    assert_eq!(table, format!("JobID        State \n------------ ----- \n{fails:<12} FAIL+ \n"));
    let (_, errors, status) = cluster.asks(&["sacct", "-o", "bogus"]);
    let unknown = "sacct: error: Invalid field requested: \"bogus\"\n";
    assert_eq!((errors.as_str(), status), (unknown, Some(1)));
    cluster.0.end();
}

#[test]
fn nodes_partitions_and_jobs_are_told_as_slurm_tells_them() {
    let cluster = Listings::start();
    assert_eq!(
        cluster.says(&["sinfo"]),
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
         main*        up   infinite      2   idle n[1-2]\n"
    );
    let job = cluster.submit("-n 1 --name one", UNTIL_GO);
    cluster.0.caller().until(job, "RUNNING");
    cluster.0.says("drain n2 --reason disk");
    assert_eq!(cluster.says(&["sinfo", "-h", "-o", "%R %C %F"]), "main 1/1/2/4 1/0/1/2\n");
    assert_eq!(
        cluster.says(&["sinfo", "-N", "-h", "-o", "%N %t %T %c"]),
        "n1 mix mixed 2\nn2 drain drained 2\n"
    );
    assert_eq!(cluster.says(&["sinfo", "-R", "-h", "-o", "%E %N"]), "disk n2\n");
    let shown = cluster.says(&["scontrol", "show", "-o", "job", &job.to_string()]);
    let words = ["JobState=RUNNING", "NodeList=n1", "NumTasks=1", "BatchHost=n1", "Partition=main"];
    for word in words {
        assert!(shown.split(' ').any(|one| one == word), "{word}: {shown}");
    }
    assert!(
        cluster
            .says(&["scontrol", "show", "config"])
            .contains("\nMinJobAge               = 300 sec\n")
    );
    let (_, errors, status) = cluster.asks(&["scontrol", "show", "node", "n9"]);
    assert_eq!((errors.as_str(), status), ("Node n9 not found\n", Some(1)));
    fs::write(cluster.0.scratch.work().join("go"), "").expect("written");
    cluster.0.caller().until(job, "COMPLETED");
    cluster.0.end();
}
