//! Slurm's commands, by their names: the command lines that recorded clients run, and the texts
//! that they read.

use crate::scratch::{STORM, Scratch, stderr, stdout, told};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A cluster, and the names of Slurm's commands.
pub(crate) struct Slurm {
    pub(crate) scratch: Scratch,
    links: PathBuf,
}

impl Slurm {
    pub(crate) fn with_nodes(nodes: u32) -> Slurm {
        let scratch = Scratch::make();
        scratch.prints(&format!("up --nodes {nodes} --pes 2"));
        let links = scratch.work().join("bin");
        fs::create_dir(&links).expect("made");
        let made = scratch.storm(["slurm", "links"]).arg(&links).output().expect("storm starts");
        assert!(made.status.success(), "{}", told(&made));
        Slurm { scratch, links }
    }

    /// A command of Slurm's with these words.
    fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut words = words.into_iter();
        let verb = words.next().expect("a verb");
        let mut command = self.scratch.command(self.links.join(verb));
        command.args(words);
        command
    }

    pub(crate) fn does(&self, line: &str) -> Output {
        self.command(line.split_whitespace()).output().expect("it starts")
    }

    /// The output of a command, which must succeed.
    pub(crate) fn prints(&self, line: &str) -> String {
        let done = self.does(line);
        assert!(done.status.success(), "{line}: {}", told(&done));
        stdout(&done)
    }

    /// The messages of a command, which must end with this status.
    pub(crate) fn refused(&self, line: &str, status: i32) -> String {
        let done = self.does(line);
        assert_eq!(done.status.code(), Some(status), "{line}: {}", told(&done));
        stderr(&done)
    }

    fn with_input(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line.split_whitespace());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("it starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        fs::write(self.scratch.work().join(name), text).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.work().join(name)).unwrap_or_default()
    }

    /// The job after its end.
    pub(crate) fn ended(&self, job: &str) -> Value {
        self.scratch.does(&format!("wait --quiet --timeout 60s {job}"));
        self.scratch.json(&format!("show {job}"))
    }
}

/// The number in `Submitted batch job 7`, which is all that some clients look for.
fn number(text: &str) -> &str {
    text.trim().rsplit(' ').next().expect("a word")
}

#[test]
fn sbatch_runs_a_file_with_its_lines_and_names_its_output_as_slurm_does() {
    let slurm = Slurm::with_nodes(2);
    slurm.script(
        "job.sh",
        "#!/bin/bash\n#SBATCH --job-name=\"a b\" -N2\n#SBATCH --ntasks   4\n\
         #SBATCH --hint=nomultithread\n\necho $SLURM_JOB_NAME $SLURM_NTASKS $# $1\n\
         echo error >&2\n#SBATCH -o other\nexit 3\n",
    );
    let told = slurm.prints("sbatch job.sh x y");
    assert_eq!(told, "Submitted batch job 1\n");
    let job = slurm.ended("1");
    assert_eq!((&job["state"], &job["exit_code"]), (&"FAILED".into(), &3.into()), "{job}");
    assert_eq!(slurm.read("slurm-1.out"), "a b 4 2 x\nerror\n");
    assert_eq!(slurm.prints("sbatch --parsable --array=0-1 job.sh"), "2\n");
    slurm.ended("2");
    assert_eq!(slurm.read("slurm-2_1.out"), "a b 4 0\nerror\n");
}

/// dask-jobqueue 0.9.0 takes any number of standard output; `%J` is in its file names.
#[test]
fn the_script_of_dask_jobqueue_is_followed() {
    let slurm = Slurm::with_nodes(1);
    slurm.script(
        "dask.sh",
        "#!/usr/bin/env bash\n\n#SBATCH -J dask-worker\n#SBATCH -e logs-%J.err\n\
         #SBATCH -o logs-%J.out\n#SBATCH -n 1\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=1G\n\
         #SBATCH -t 00:30:00\n\necho $SLURM_CPUS_PER_TASK\n",
    );
    let job = slurm.prints("sbatch dask.sh");
    let job = slurm.ended(number(&job));
    assert_eq!(job["time_limit_s"], 1800, "{job}");
    assert_eq!(slurm.read("logs-1.out"), "2\n");
}

/// submitit 1.5.4 reads `job N`; simple-slurm 0.3.6 sends the script to standard input, with many
/// blanks in its lines; snakemake's executor 2.8.0 has `--parsable` and `--wrap`.
#[test]
fn recorded_command_lines_of_other_clients_submit() {
    let slurm = Slurm::with_nodes(1);
    let text = "#!/bin/sh\n\n#SBATCH --array               3-4\n#SBATCH --cpus-per-task       1\n\
                #SBATCH --job-name            name\n#SBATCH --output              %A_%a.out\n\n\
                echo $SLURM_ARRAY_TASK_ID\n";
    let done = slurm.with_input("sbatch", text);
    assert_eq!(stdout(&done), "Submitted batch job 1\n", "{}", told(&done));
    slurm.ended("1");
    assert_eq!(slurm.read("1_4.out"), "4\n");
    let words = [
        "sbatch",
        "--parsable",
        "--job-name",
        "6c2b",
        "--output",
        "logs-%j.log",
        "--export=ALL",
        "-p",
        "main",
        "-t",
        "5",
        "--mem",
        "100",
        "--ntasks=1",
        "--cpus-per-task=1",
        "-D",
        ".",
        "--wrap=echo $SLURM_JOB_NAME",
    ];
    let partition = slurm.scratch.json("partition list")[0]["name"].clone();
    let partition = partition.as_str().expect("a name").to_owned();
    let words = words.map(|word| if word == "main" { partition.as_str() } else { word });
    let done = slurm.command(words).output().expect("it starts");
    let job = stdout(&done).trim().to_owned();
    assert!(!job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit()), "{}", told(&done));
    slurm.ended(&job);
    assert_eq!(slurm.read(&format!("logs-{job}.log")), "6c2b\n");
}

#[test]
fn sbatch_waits_for_the_status_and_is_quiet_when_asked() {
    let slurm = Slurm::with_nodes(1);
    let done = slurm.command(["sbatch", "-Q", "--wait", "--wrap", "exit 3"]).output();
    let done = done.expect("it starts");
    assert_eq!(done.status.code(), Some(3), "{}", told(&done));
    assert_eq!((stdout(&done), stderr(&done)), (String::new(), String::new()));
    let cluster = slurm.scratch.json("show 1");
    assert_eq!(cluster["name"], "wrap");
}

#[test]
fn the_command_line_counts_before_variables_and_those_before_lines() {
    let slurm = Slurm::with_nodes(1);
    slurm.script("job.sh", "#!/bin/sh\n#SBATCH -J line -t 5 --mem-per-cpu=1M -o /dev/null\n:\n");
    let mut command = slurm.command(["sbatch", "--parsable", "--mem=2M", "job.sh"]);
    command.env("SBATCH_JOB_NAME", "variable").env("SBATCH_TIMELIMIT", "0");
    let done = command.output().expect("it starts");
    let job = slurm.ended(stdout(&done).trim());
    assert_eq!((&job["name"], &job["time_limit_s"]), (&"variable".into(), &Value::Null), "{job}");
    assert_eq!(job["resources"]["memory"]["per-node"], 2 << 20, "{job}");
}

/// The texts and statuses of Debian's Slurm 22.05.
#[test]
fn sbatch_refuses_in_slurms_words() {
    let slurm = Slurm::with_nodes(1);
    slurm.script("job.sh", "#!/bin/sh\n:\n");
    slurm.script("plain.sh", "ls\n");
    slurm.script("empty.sh", "");
    slurm.script("windows.sh", "#!/bin/sh\r\nls\r\n");
    slurm.script("gres.sh", "#!/bin/sh\n#SBATCH --gres=gpu:2\n:\n");
    let first = |line: &str, status| {
        slurm.refused(line, status).lines().next().unwrap_or_default().to_owned()
    };
    for (line, status, text) in [
        ("sbatch nofile.sh", 1, "sbatch: error: Unable to open file nofile.sh"),
        ("sbatch empty.sh", 1, "sbatch: error: Batch script is empty!"),
        ("sbatch plain.sh", 1, "sbatch: error: This does not look like a batch script.  The first"),
        ("sbatch windows.sh", 1, "sbatch: error: Batch script contains DOS line breaks (\\r\\n)"),
        ("sbatch --frogs job.sh", 255, "sbatch: unrecognized option '--frogs'"),
        ("sbatch -t soon job.sh", 255, "sbatch: error: Invalid --time specification"),
        (
            "sbatch --wrap=ls job.sh",
            1,
            "sbatch: error: Script arguments not permitted with --wrap option",
        ),
    ] {
        assert_eq!(first(line, status), text, "{line}");
    }
    let told = slurm.refused("sbatch -p nope job.sh", 1);
    assert!(
        told.ends_with(
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
        ),
        "{told}"
    );
    let told = slurm.refused("sbatch gres.sh", 255);
    assert!(
        told.contains("gres.sh, line 2: #SBATCH --gres=gpu:2") && told.contains("--constraint")
    );
    assert!(slurm.refused("sbatch -M other job.sh", 1).contains("'other'"));
    assert_eq!(slurm.scratch.json("queue --all"), Value::Array(Vec::new()));
}

#[test]
fn scancel_ends_jobs_by_number_by_index_and_by_filter() {
    let slurm = Slurm::with_nodes(1);
    let held = |words: &str| {
        let line = format!("sbatch --parsable -H -o /dev/null {words} --wrap=true");
        slurm.prints(&line).trim().to_owned()
    };
    let (one, array) = (held("-J one"), held("--array=0-5 -J many"));
    assert_eq!(slurm.prints(&format!("scancel {array}_[1-2] {one}")), "");
    assert_eq!(slurm.ended(&one)["state"], "CANCELLED");
    let waiting = || slurm.scratch.json("queue --state PENDING").as_array().expect("a list").len();
    assert_eq!(waiting(), 4);
    // An ended job is no mistake, unless one asks.
    assert_eq!(stderr(&slurm.does(&format!("scancel {one} 99999"))), "");
    let told = slurm.does("scancel -v 99999");
    assert_eq!(told.status.code(), Some(0));
    assert_eq!(
        stderr(&told),
        "scancel: error: Kill job error on job id 99999: Invalid job id specified\n"
    );
    assert_eq!(
        slurm.refused("scancel -s USR1 99999", 1),
        "scancel: error: Kill job error on job id 99999: Invalid job id specified\n"
    );
    slurm.prints("scancel -n other");
    assert_eq!(waiting(), 4);
    assert!(stderr(&slurm.does("scancel -v -n other")).contains("job_name=other"));
    slurm.prints("scancel --me -t PD -n many,else");
    assert_eq!(waiting(), 0);
    assert_eq!(slurm.refused("scancel", 1), "scancel: error: No job identification provided\n");
    assert_eq!(slurm.refused("scancel x", 1), "scancel: error: Invalid job id x\n");
    assert_eq!(slurm.refused("scancel -s FOO 1", 1), "Unknown job signal: FOO\n");
    assert!(slurm.refused("scancel 1.0", 1).contains("only with its job"));
}

#[test]
fn scancel_sends_signals() {
    let slurm = Slurm::with_nodes(1);
    slurm.script(
        "trap.sh",
        "#!/bin/sh\n#SBATCH -o out\ntrap 'echo USR1; exit 0' USR1\ntouch ready\n\
         while :; do sleep 0.02; done\n",
    );
    let job = slurm.prints("sbatch --parsable trap.sh");
    let job = job.trim();
    while !slurm.scratch.work().join("ready").exists() {
        slurm.does("scontrol ping");
    }
    slurm.prints(&format!("scancel {job} --signal USR1"));
    assert_eq!(slurm.ended(job)["state"], "COMPLETED");
    // The signal reaches the command under way as well.
    assert!(slurm.read("out").ends_with("USR1\n"), "{}", slurm.read("out"));
}

#[test]
fn scontrol_holds_and_releases_and_knows_hosts() {
    let slurm = Slurm::with_nodes(2);
    let job = slurm.prints("sbatch --parsable -H -J name -o /dev/null --wrap=true");
    let job = job.trim();
    assert_eq!(slurm.prints(&format!("scontrol release {job}")), "");
    assert_eq!(slurm.ended(job)["state"], "COMPLETED");
    slurm.prints("sbatch --parsable -H -J name -o /dev/null --wrap=true");
    slurm.prints("scontrol release jobname=name");
    assert_eq!(slurm.ended("2")["state"], "COMPLETED");
    assert_eq!(
        slurm.refused("scontrol hold 99999", 1),
        "Invalid job id specified for job 99999\nslurm_suspend error: Invalid job id specified\n"
    );
    assert!(slurm.prints("scontrol ping").ends_with(" is UP\n"));
    assert_eq!(slurm.prints("scontrol show hostnames n[1-2,10]"), "n1\nn2\nn10\n");
    assert_eq!(slurm.prints("scontrol show hostlist n1,n2,n4"), "n[1-2,4]\n");
    assert!(slurm.refused("scontrol wait_job 1", 1).contains("no longer running"));
    assert_eq!(slurm.refused("scontrol frogs", 1), "invalid keyword: frogs\n");
}

#[test]
fn a_script_reads_the_file_of_input() {
    let slurm = Slurm::with_nodes(1);
    slurm.script("in.sh", "#!/bin/sh\n#SBATCH -i in-%j -o out\ncat\n");
    slurm.script("in-1", "line\n");
    slurm.prints("sbatch --wait in.sh");
    assert_eq!(slurm.read("out"), "line\n");
    slurm.refused("sbatch --wait -i nofile -o out in.sh", 126);
    let shown = slurm.scratch.json("show 2");
    assert!(shown["reason"].to_string().contains("nofile"), "{shown}");
}

#[test]
fn scontrol_writes_the_script_of_a_job() {
    let slurm = Slurm::with_nodes(1);
    let text = "#!/bin/sh\n#SBATCH -H -o /dev/null\n: \u{e9}\n";
    slurm.script("job.sh", text);
    let job = slurm.prints("sbatch --parsable job.sh");
    let job = job.trim();
    assert_eq!(slurm.prints(&format!("scontrol write batch_script {job} -")), text);
    let told = slurm.prints(&format!("scontrol write batch_script {job}"));
    assert_eq!(told, format!("batch script for job {job} written to slurm-{job}.sh\n"));
    assert_eq!(slurm.read(&format!("slurm-{job}.sh")), text);
    assert_eq!(
        slurm.refused("scontrol write batch_script 99999 -", 1),
        "job script retrieval failed: Invalid job id specified\n"
    );
}

/// The names are those of Slurm's OpenAPI specification.
#[test]
fn listings_are_documents_of_json() {
    let slurm = Slurm::with_nodes(2);
    let json = |line: &str| -> Value {
        serde_json::from_str(&slurm.prints(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let held = slurm.prints("sbatch --parsable -H -a 0-3%2 -t 5 -o /dev/null --wrap=true");
    let held: u64 = held.trim().parse().expect("a number");
    let ran = slurm.prints("sbatch --parsable -J ran -o /dev/null --wrap=exit${IFS}3");
    let ran = ran.trim();
    slurm.ended(ran);
    let queue = json("squeue --json");
    let job = &queue["jobs"][0];
    assert_eq!(
        (&job["array_job_id"]["number"], &job["array_task_string"]),
        (&held.into(), &"0-3%2".into())
    );
    assert_eq!((&job["job_state"][0], &job["hold"]), (&"PENDING".into(), &true.into()), "{job}");
    assert_eq!(job["time_limit"]["number"], 5);
    assert_eq!(queue["meta"]["slurm"]["release"], "25.11.0");
    let nodes = json("sinfo --json");
    assert_eq!(nodes["sinfo"][0]["nodes"]["total"], 2, "{nodes}");
    assert_eq!(nodes["sinfo"][0]["node"]["state"], serde_json::json!(["IDLE"]));
    let accounted = json(&format!("sacct --json -j {ran}"));
    let job = &accounted["jobs"][0];
    assert_eq!((&job["name"], &job["state"]["current"][0]), (&"ran".into(), &"FAILED".into()));
    assert_eq!(job["exit_code"]["return_code"]["number"], 3, "{job}");
    assert_eq!(job["steps"][0]["step"]["id"], format!("{ran}.batch"));
}

#[test]
fn the_use_of_the_cluster_is_reported() {
    let slurm = Slurm::with_nodes(2);
    slurm.script(
        "job.sh",
        "#!/bin/sh\n#SBATCH -o /dev/null\nwhile [ ! -e go ]; do sleep 0.02; done\n",
    );
    let job = slurm.prints("sbatch --parsable job.sh");
    let job = job.trim();
    while slurm.prints(&format!("squeue -h -j {job} -o %t")) != "R\n" {
        slurm.does("scontrol ping");
    }
    assert_eq!(
        slurm.prints(&format!("sstat -n -P -j {job} -o jobid,ntasks")),
        format!("{job}.batch|1\n")
    );
    slurm.script("go", "");
    slurm.ended(job);
    let told = slurm.prints("sreport cluster util start=now-1hour end=now");
    assert!(
        told.contains("\nCluster Utilization ")
            && told.contains("\nUsage reported in CPU Minutes\n")
    );
    let row = slurm.prints("sreport -n -P -t seconds cluster utilization start=now-1hour end=now");
    let cells: Vec<&str> = row.trim().split('|').collect();
    assert_eq!((cells.len(), cells.last()), (7, Some(&"14400")), "{row}");
    let none = slurm.does(&format!("sstat -n -j {job}"));
    assert_eq!(stderr(&none), format!("sstat: error: no steps running for job {job}\n"));
    assert!(slurm.refused("sreport job sizes", 1).contains("TopUsage"));
}

#[test]
fn a_job_is_tried_out_and_not_submitted() {
    let slurm = Slurm::with_nodes(1);
    let done = slurm.does("sbatch --test-only -n 2 --wrap=true");
    let partition = slurm.prints("sinfo -h -o %R");
    let told = stderr(&done);
    assert!(done.status.success() && told.starts_with("sbatch: Job 1 to start at "), "{told}");
    let end = format!(" using 2 processors on nodes (null) in partition {partition}");
    assert!(told.ends_with(&end), "{told}");
    let told = slurm.refused("sbatch --test-only -p nope --wrap=true", 1);
    assert!(told.ends_with("allocation failure: Invalid partition name specified\n"), "{told}");
    let told = slurm.refused("sbatch --test-only -n 99 --wrap=true", 1);
    assert!(told.contains("can never run"), "{told}");
    let done = slurm.does("sbatch --test-only -H --wrap=true");
    let told = stderr(&done);
    assert!(done.status.success() && told.contains("would wait in partition"), "{told}");
    assert_eq!(slurm.scratch.json("queue --all"), Value::Array(Vec::new()));
}

/// The words of a record that `scontrol show` prints.
fn has_word(record: &str, word: &str) -> bool {
    record.split_whitespace().any(|one| one == word)
}

#[test]
fn scontrol_updates_jobs() {
    let slurm = Slurm::with_nodes(2);
    let job = slurm.prints(
        "sbatch --parsable -H -J before -t 60 --comment first --wckey key -w n1 -x n2 \
         -o /dev/null --wrap=true",
    );
    let job = job.trim();
    let fields = |format: &str| slurm.prints(&format!("squeue -h -j {job} -o {format}"));
    assert_eq!(fields("%k|%w|%n|%x"), "first|key|n1|n2\n");
    let update = format!(
        "scontrol update JobId={job} TimeLimit=30 JobName=after Nice=5 Comment=second Dependency="
    );
    assert_eq!(slurm.prints(&update), "");
    assert_eq!(fields("%l|%j|%y|%k"), "30:00|after|5|second\n");
    slurm.prints(&format!("scontrol update JobId={job} TimeLimit-=10"));
    let shown = slurm.prints(&format!("scontrol show job {job}"));
    for word in ["TimeLimit=00:20:00", "Comment=second", "ReqNodeList=n1", "ExcNodeList=n2"] {
        assert!(has_word(&shown, word), "{word}: {shown}");
    }
    let last = slurm.prints("sbatch --parsable -H -o /dev/null --wrap=true");
    let last = last.trim();
    slurm.prints(&format!("scontrol update job {last} Dependency=afterok:{job}"));
    let shown = slurm.prints(&format!("scontrol show job {last}"));
    assert!(has_word(&shown, &format!("Dependency=afterok:{job}(unfulfilled)")), "{shown}");
    assert_eq!(
        slurm.refused("scontrol update JobId=99999 Nice=1", 1),
        "Invalid job id specified for job 99999\nslurm_update error: Invalid job id specified\n"
    );
    assert!(slurm.refused("scontrol update Nice=1", 1).starts_with("No valid entity"));
    let account = slurm.refused(&format!("scontrol update JobId={job} Account=a"), 1);
    assert!(account.starts_with("Update of this parameter is not supported: Account=a\n"));
    slurm.prints("scontrol update NodeName=n2 State=DRAIN Reason=disk");
    assert_eq!(slurm.prints("sinfo -h -N -n n2 -o %T"), "drained\n");
    slurm.prints("scontrol update NodeName=n2 State=RESUME");
    assert_eq!(slurm.prints("sinfo -h -N -n n2 -o %T"), "idle\n");
    slurm.prints(&format!("scontrol release {job}"));
    slurm.ended(job);
    let accounted = slurm.prints(&format!("sacct -X -n -P -j {job} -o Comment,WCKey"));
    assert_eq!(accounted, "second|key\n");
}

#[test]
fn scontrol_requeues_suspends_and_resumes_jobs() {
    let slurm = Slurm::with_nodes(1);
    slurm.script(
        "job.sh",
        "#!/bin/sh\n#SBATCH -o /dev/null\ntouch ready.$SLURM_RESTART_COUNT\n\
         while [ ! -e go ]; do sleep 0.02; done\n",
    );
    let job = slurm.prints("sbatch --parsable job.sh");
    let job = job.trim();
    let state = || slurm.prints(&format!("squeue -h -j {job} -o %T:%r"));
    let until = |expected: &str| {
        while state().trim() != expected {
            slurm.does("scontrol ping");
        }
    };
    until("RUNNING:None");
    slurm.prints(&format!("scontrol suspend {job}"));
    until("SUSPENDED:None");
    slurm.prints(&format!("scontrol resume {job}"));
    until("RUNNING:None");
    slurm.prints(&format!("scontrol requeuehold {job}"));
    until("PENDING:JobHeldUser");
    slurm.prints(&format!("scontrol release {job}"));
    until("RUNNING:None");
    let shown = slurm.prints(&format!("scontrol show job {job}"));
    assert!(has_word(&shown, "Restarts=1"), "{shown}");
    slurm.prints(&format!("scontrol requeue {job}"));
    slurm.script("go", "");
    assert_eq!(slurm.ended(job)["state"], "COMPLETED");
    assert_eq!(
        slurm.refused(&format!("scontrol requeue {job}"), 1),
        format!("Job/step already completing or completed for job {job}\n")
    );
}

#[test]
fn srun_outside_of_a_job_runs_one() {
    let slurm = Slurm::with_nodes(2);
    let done = slurm.command(["srun", "-N2", "-n4", "-l", "sh", "-c", "echo $STORM_SIZE"]);
    let done = { done }.output().expect("it starts");
    let mut lines: Vec<_> = stdout(&done).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0: 4", "1: 4", "2: 4", "3: 4"], "{}", told(&done));
    assert_eq!(stderr(&done), "");
    let done = slurm.command(["srun", "-n2", "sh", "-c", "exit $STORM_RANK"]).output();
    let done = done.expect("it starts");
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).starts_with("srun: error: "), "{}", told(&done));
    let shown = slurm.command([
        "srun",
        "-N2",
        "-n4",
        "-J",
        "name",
        "sh",
        "-c",
        "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NTASKS $SLURM_JOB_NAME \
         $SLURM_STEP_ID $SLURM_GTIDS $SLURM_JOB_PARTITION/$SLURM_CLUSTER_NAME",
    ]);
    let done = { shown }.output().expect("it starts");
    let mut lines: Vec<_> = stdout(&done).lines().map(str::to_owned).collect();
    lines.sort();
    let partition = slurm.prints("sinfo -h -o %R");
    let cluster = slurm.prints("squeue -M all -o %i");
    let cluster = cluster.lines().next().unwrap_or_default().trim_start_matches("CLUSTER: ");
    let place = format!("{}/{cluster}", partition.trim());
    let expected = ["0 0 0 4 name 0 0,1", "1 0 1 4 name 0 0,1", "2 1 0 4 name 0 2,3"];
    assert_eq!(lines[..3], expected.map(|line| format!("{line} {place}")), "{}", told(&done));
    slurm.script("in", "line\n");
    assert_eq!(slurm.prints("srun -i in cat"), "line\n");
    slurm.prints("sbatch --wait -o step --wrap=srun${IFS}-n1${IFS}printenv${IFS}SLURM_STEP_ID");
    assert_eq!(slurm.read("step"), "0\n", "in a script it is a step");
}

#[test]
fn every_command_tells_its_version_and_its_help() {
    let scratch = Scratch::make();
    let by_verb = |words: &str| scratch.prints(&format!("slurm {words}"));
    for verb in ["sbatch", "squeue", "scontrol", "sacct", "sreport"] {
        assert_eq!(by_verb(&format!("{verb} -V")), "slurm 25.11.0\n");
        assert!(by_verb(&format!("{verb} --help")).starts_with(&format!("Usage: {verb}")));
    }
    let rows = scratch.json("slurm options sbatch");
    let of = |name: &str| {
        let rows = rows.as_array().expect("a list").iter();
        rows.clone().find(|row| row["names"][0] == name).expect(name).clone()
    };
    assert_eq!((&of("ntasks")["here"], &of("ntasks")["storm"]), (&"acts".into(), &"-n".into()));
    assert_eq!(of("hint")["here"], "accepted");
    assert_eq!(of("container")["here"], "refused");
    assert!(
        Command::new(STORM).args(["slurm", "frogs"]).output().is_ok_and(|done| {
            done.status.code() == Some(2) && stderr(&done).contains("sbatch")
        })
    );
}
