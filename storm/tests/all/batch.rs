//! Batch scripts: a script runs once, on the first node of its job's place
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`).

use crate::scratch::real_cluster::RealCluster;
use crate::scratch::{Scratch, stderr, stdout, told};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

/// Waits until the file `go` is there, and ends with status 3.
const UNTIL_GO: &str = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\nexit 3\n";

fn cluster(nodes: u32) -> Scratch {
    let scratch = Scratch::make();
    scratch.prints(&format!("up --nodes {nodes} --pes 2"));
    scratch
}

/// Writes a script that is not executable.
fn script(scratch: &Scratch, name: &str, text: &str) {
    fs::write(scratch.work().join(name), text).expect("written");
}

fn read(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.work().join(name)).unwrap_or_default()
}

/// The job that a script becomes, after its end.
fn ended(scratch: &Scratch, words: &str) -> Value {
    let job = scratch.prints(&format!("--quiet {words}"));
    let job = job.trim();
    scratch.does(&format!("wait --quiet --timeout 60s {job}"));
    scratch.json(&format!("show {job}"))
}

fn refused(scratch: &Scratch, words: &str, status: i32) -> String {
    let done = scratch.does(words);
    assert_eq!(done.status.code(), Some(status), "storm {words}: {}", told(&done));
    stderr(&done)
}

fn with_input(scratch: &Scratch, words: &str, input: &str) -> Output {
    let mut command = scratch.storm(words.split_whitespace());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut storm = piped.spawn().expect("storm starts");
    storm.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    storm.wait_with_output().expect("it ends")
}

/// It ran once for each process.
#[test]
fn a_script_over_four_nodes_runs_once_and_has_all_their_elements() {
    let scratch = cluster(4);
    script(
        &scratch,
        "job.sh",
        "#!/bin/sh\n#SBATCH --nodes=4 --ntasks-per-node=2\n#SBATCH -o out\n\
         echo run $STORM_RANK of $STORM_SIZE with $1 ${PMI_RANK-none} ${PMI_FD-none}\n\
         echo $SLURM_JOB_ID $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE \
         $SLURM_JOB_CPUS_PER_NODE $SLURM_CPUS_ON_NODE $SLURM_NTASKS_PER_NODE $SLURM_JOB_NAME\n\
         [ $SLURM_JOB_NODELIST = $STORM_NODELIST ] && [ $SLURM_SUBMIT_DIR = $PWD ] && \
         echo on $SLURM_NODELIST at $SLURMD_NODENAME $STORM_NTASKS\n\
         storm queue --json > queue\nstorm nodes --json > nodes\n",
    );
    let path = format!("{}:{}", bin().display(), std::env::var("PATH").expect("there is one"));
    let done = scratch.storm(["batch", "--wait", "job.sh", "x y"]).env("PATH", path).output();
    let done = done.expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(
        read(&scratch, "out"),
        "run 0 of 1 with x y none none\n1 4 8 2(x4) 2(x4) 2 2 job.sh\non n[1-4] at n1 8\n"
    );
    let queue: Value = serde_json::from_str(&read(&scratch, "queue")).expect("JSON");
    assert_eq!((&queue[0]["procs"], &queue[0]["nodes"]), (&8.into(), &4.into()), "{queue}");
    let nodes: Value = serde_json::from_str(&read(&scratch, "nodes")).expect("JSON");
    let nodes = nodes.as_array().expect("a list");
    assert!(nodes.iter().all(|node| node["state"] == "ALLOCATED"), "{nodes:?}");
    let job = scratch.json("show 1");
    assert_eq!(job["spec"]["first"], "script");
    assert_eq!(job["ranks"].as_array().map(Vec::len), Some(1), "{job}");
    assert!(scratch.prints("show 1").contains("once, on the first node"));
}

/// The directory of this build's programs.
fn bin() -> &'static std::path::Path {
    std::path::Path::new(crate::scratch::STORM).parent().expect("it is in one")
}

#[test]
fn the_status_of_the_script_is_that_of_the_job() {
    let scratch = cluster(2);
    script(&scratch, "seven.sh", "#!/bin/sh\nfalse\nexit 7\n");
    assert_eq!(scratch.does("batch -N 2 --wait seven.sh").status.code(), Some(7));
    script(&scratch, "nothing.sh", "#!/bin/sh\n# nothing is executed\n:\n");
    assert_eq!(ended(&scratch, "batch -n 4 nothing.sh")["state"], "COMPLETED");
    script(&scratch, "gone.sh", "#!/no/such/interpreter\nls\n");
    let job = ended(&scratch, "batch gone.sh");
    assert_eq!((&job["state"], &job["exit_code"]), (&"FAILED".into(), &127.into()), "{job}");
    assert!(job["reason"].to_string().contains("/no/such/interpreter"), "{job}");
    // All elements are free again.
    assert_eq!(ended(&scratch, "batch -n 4 nothing.sh")["state"], "COMPLETED");
}

#[test]
fn what_is_no_script_is_refused_with_what_mends_it() {
    let scratch = cluster(1);
    script(&scratch, "windows.sh", "#!/bin/sh\nls\r\n");
    let said = refused(&scratch, "batch windows.sh", 126);
    assert!(said.contains("line 2") && said.contains("dos2unix windows.sh"), "{said}");
    script(&scratch, "plain.sh", "ls\n");
    assert!(refused(&scratch, "batch plain.sh", 126).contains("names its interpreter"));
    script(&scratch, "empty.sh", "");
    assert!(refused(&scratch, "batch empty.sh", 126).contains("is empty"));
    assert!(refused(&scratch, "batch ./none.sh", 127).contains("does not exist"));
    script(&scratch, "gres.sh", "#!/bin/sh\n#SBATCH -n 2\n#SBATCH --gres=gpu:1\n");
    let said = refused(&scratch, "batch gres.sh", 2);
    assert!(said.contains("gres.sh, line 3: #SBATCH --gres=gpu:1"), "{said}");
    assert!(said.contains("--constraint"), "{said}");
    assert_eq!(scratch.json("hist"), Value::Array(Vec::new()));
}

#[test]
fn later_edits_of_the_file_do_not_change_the_job() {
    let scratch = cluster(1);
    script(&scratch, "job.sh", "#!/bin/sh\n#SBATCH -o out\necho first\n");
    let job = scratch.prints("batch --hold --quiet job.sh");
    script(&scratch, "job.sh", "#!/bin/sh\necho second\n");
    scratch.prints(&format!("release {job}"));
    scratch.does(&format!("wait {job}"));
    assert_eq!(read(&scratch, "out"), "first\n");
}

#[test]
fn a_script_comes_by_standard_input_and_a_command_by_wrap() {
    let scratch = cluster(2);
    let text = "#!/bin/sh\n#SBATCH --job-name=\"a b\" -N2\necho $SLURM_JOB_NAME $# $1; cat\n";
    let done = with_input(&scratch, "batch -o out --wait - mesh", text);
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(read(&scratch, "out"), "a b 1 mesh\n");
    let words = ["batch", "-N2", "-o", "wrapped", "--wait", "--wrap", "echo $SLURM_NNODES; exit 4"];
    let done = scratch.storm(words).output().expect("storm starts");
    assert_eq!(done.status.code(), Some(4), "{}", told(&done));
    assert_eq!(read(&scratch, "wrapped"), "2\n");
}

#[test]
fn submit_says_that_a_script_with_lines_runs_once() {
    let scratch = cluster(2);
    let text = "#!/bin/sh\n#SBATCH -N 2\n#STORM -o out\necho $STORM_SIZE\n";
    script(&scratch, "job.sh", text);
    let done = scratch.does("submit --wait ./job.sh");
    let said = stderr(&done);
    assert!(said.contains("job.sh has #SBATCH and #STORM lines: it runs once"), "{said}");
    assert_eq!(read(&scratch, "out"), "1\n");
    let done = with_input(&scratch, "submit --wait -", text);
    assert!(stderr(&done).contains("stdin has #SBATCH and #STORM lines"), "{}", told(&done));
    // Files that are no scripts, or have no such lines, run in each process.
    let done =
        with_input(&scratch, "submit -n 2 -o each --wait -", "#!/bin/sh\necho $STORM_SIZE\n");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(read(&scratch, "each"), "2\n2\n");
}

#[test]
fn the_command_line_counts_before_variables_and_those_before_the_lines() {
    let scratch = cluster(2);
    script(
        &scratch,
        "job.sh",
        "#!/bin/sh\n#SBATCH -J line -t 10 -n 1 --mem-per-cpu=1M --requeue -o out\ntrue\n",
    );
    let shown = |words: &str| {
        let mut command = scratch.storm(words.split_whitespace());
        command.env("SBATCH_JOB_NAME", "variable").env("SBATCH_TIMELIMIT", "20");
        let done = command.output().expect("storm starts");
        scratch.json(&format!("show {}", stdout(&done).trim()))
    };
    let job = shown("batch -q -n 3 --mem 9M --no-requeue job.sh");
    assert_eq!((&job["name"], &job["time_limit_s"]), (&"variable".into(), &1200.into()));
    assert_eq!((&job["procs"], &job["spec"]["requeue"]), (&3.into(), &false.into()), "{job}");
    assert_eq!(job["resources"]["memory"]["per-node"], 9 << 20, "{job}");
    let job = shown("batch -q -t 30 -J line2 job.sh");
    assert_eq!((&job["name"], &job["time_limit_s"]), (&"line2".into(), &1800.into()));
    assert_eq!((&job["procs"], &job["spec"]["requeue"]), (&1.into(), &true.into()), "{job}");
}

#[test]
fn each_job_of_an_array_runs_the_script_once() {
    let scratch = cluster(2);
    script(
        &scratch,
        "job.sh",
        "#!/bin/sh\n#SBATCH --array 3-5%2 -N 2\n#SBATCH -J n -o %x-%A-%a\n\
         echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_JOB_ID \
         $((SLURM_JOB_ID - SLURM_ARRAY_JOB_ID)) $STORM_ARRAY_TASK_ID\n",
    );
    let done = scratch.does("batch --wait job.sh");
    assert!(done.status.success(), "{}", told(&done));
    for index in 3..=5 {
        let said = read(&scratch, &format!("n-1-{index}"));
        assert_eq!(said, format!("{index} of 3 1 {} {index}\n", index - 2));
    }
}

#[test]
fn a_script_may_trap_signals() {
    let scratch = cluster(2);
    script(
        &scratch,
        "job.sh",
        "#!/bin/bash\ntrap 'echo usr1 >> said' USR1\ntrap 'echo term >> said; exit 9' TERM\n\
         echo ready > said\nwhile :; do sleep 0.02; done\n",
    );
    let job = scratch.prints("batch -N 2 --quiet job.sh");
    let job = job.trim();
    let ready = || read(&scratch, "said").contains("ready").then_some(());
    scratch.wait_for(&format!("show {job}"), |_| ready());
    scratch.prints(&format!("cancel {job} --signal USR1"));
    scratch.wait_for(&format!("show {job}"), |_| {
        read(&scratch, "said").contains("usr1").then_some(())
    });
    scratch.prints(&format!("cancel {job}"));
    scratch.does(&format!("wait {job}"));
    assert_eq!(read(&scratch, "said"), "ready\nusr1\nterm\n");
    assert_eq!(scratch.json(&format!("show {job}"))["state"], "CANCELLED");
}

/// The number of a script that waits for the file `go` on both nodes of a cluster.
fn waiting(cluster: &RealCluster, options: &str) -> u64 {
    script(&cluster.scratch, "job.sh", UNTIL_GO);
    let done = cluster.caller().storm(&format!("batch -q -N 2 {options} job.sh")).output();
    let job = stdout(&done.expect("storm starts")).trim().parse().expect("a number");
    let job_view = cluster.caller().until(job, "RUNNING");
    assert_eq!(job_view["node_list"], "n[1-2]", "{job_view}");
    job
}

fn go(cluster: &RealCluster) {
    fs::write(cluster.scratch.work().join("go"), "").expect("written");
}

#[test]
fn a_script_ends_with_any_node_of_its_place_or_is_queued_again() {
    let mut cluster = RealCluster::start(2, "timeouts = { node-return = \"0s\" }");
    let job = waiting(&cluster, "");
    // No process of the job is there.
    cluster.kill_node(2);
    let ended = cluster.caller().until(job, "NODE_FAIL");
    assert!(ended["reason"].to_string().contains("n2"), "{ended}");
    cluster.start_node(2);
    cluster.caller().until_idle(2);
    for dies in [2, 1] {
        let job = waiting(&cluster, "--requeue");
        cluster.kill_node(dies);
        cluster.caller().until(job, "PENDING");
        cluster.start_node(dies);
        assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 2);
        go(&cluster);
        assert_eq!(cluster.caller().until(job, "FAILED")["exit_code"], 3);
        fs::remove_file(cluster.scratch.work().join("go")).expect("it is there");
        cluster.caller().until_idle(2);
    }
    cluster.end();
}

#[test]
fn a_script_outlives_the_manager_and_the_node_managers_of_its_place() {
    let mut cluster = RealCluster::start(2, "");
    let job = waiting(&cluster, "");
    for node in [1, 2] {
        cluster.kill_node(node);
        cluster.caller().until_down(&format!("n{node}"));
        cluster.start_node(node);
        let back = |nodes: &Value| (!nodes.to_string().contains("DOWN")).then_some(());
        cluster.caller().wait_for("nodes", back);
    }
    cluster.end_manager(Signal::SIGKILL);
    cluster.start_manager();
    assert_eq!(cluster.caller().until(job, "RUNNING")["runs"], 1);
    go(&cluster);
    let ended = cluster.caller().until(job, "FAILED");
    assert_eq!((&ended["exit_code"], &ended["runs"]), (&3.into(), &1.into()), "{ended}");
    cluster.caller().until_idle(2);
    cluster.end();
}
