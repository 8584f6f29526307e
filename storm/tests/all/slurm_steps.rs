//! `srun` in a batch script starts steps in the script's place, as Slurm's does
//! (`docs/decisions/0150-a-job-is-a-place-with-steps.md`). Unless a test says otherwise, Slurm
//! 22.05 prints the same.

use crate::scratch::{stderr, stdout, told};
use crate::slurm::Slurm;
use std::process::Output;

/// Runs a script to its end. It finds `srun` though no link of Slurm's commands is in its path.
fn batch(slurm: &Slurm, options: &str, lines: &str) -> Output {
    slurm.script("job.sh", &format!("#!/bin/sh\n{lines}\n"));
    slurm.does(&format!("sbatch --wait -o out -e err {options} job.sh"))
}

/// The output of a script, which must succeed.
fn out(slurm: &Slurm, options: &str, lines: &str) -> String {
    let done = batch(slurm, options, lines);
    let (said, errors) = (slurm.read("out"), slurm.read("err"));
    assert!(done.status.success(), "{}\n{said}\n{errors}", told(&done));
    said
}

/// Prints each process and its node, in the order of the processes.
const WHERE: &str = "where() { echo \"$* |\" $(srun \"$@\" sh -c 'echo $SLURM_PROCID:$SLURMD_NODENAME' | \
                     sort -n); }";

#[test]
fn steps_have_the_processes_and_the_nodes_that_slurm_gives_them() {
    let slurm = Slurm::with_nodes(3);
    let lines = format!(
        "{WHERE}\nwhere\nwhere -n2\nwhere -n1\nwhere -n5\nwhere -N2 -n3\nwhere -N1 -n2\n\
         where -w n2 -N1 -n1\nwhere -w n3,n2 -N2 -n2\nwhere -x n1 -N1 -n1\nwhere -r1 -N1 -n1\n\
         where --ntasks-per-node=1 -N2 -n2\nwhere -N1-3 -n2"
    );
    let said = out(&slurm, "-N 3 -n 6", &lines);
    let expected = [
        " | 0:n1 1:n1 2:n2 3:n2 4:n3 5:n3",
        "-n2 | 0:n1 1:n2",
        "-n1 | 0:n1",
        "-n5 | 0:n1 1:n1 2:n2 3:n2 4:n3",
        "-N2 -n3 | 0:n1 1:n1 2:n2",
        "-N1 -n2 | 0:n1 1:n1",
        "-w n2 -N1 -n1 | 0:n2",
        "-w n3,n2 -N2 -n2 | 0:n2 1:n3",
        "-x n1 -N1 -n1 | 0:n2",
        "-r1 -N1 -n1 | 0:n2",
        "--ntasks-per-node=1 -N2 -n2 | 0:n1 1:n2",
        "-N1-3 -n2 | 0:n1 1:n2",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{}", slurm.read("err"));
    let warning = "srun: Warning: can't run 2 processes on 3 nodes, setting nnodes to 2\n";
    assert!(slurm.read("err").contains(warning), "{}", slurm.read("err"));
}

#[test]
fn a_step_that_cannot_be_is_refused_in_slurms_words_and_the_script_goes_on() {
    let slurm = Slurm::with_nodes(2);
    let lines = "srun -n 5 true; echo $?\nsrun -N 3 true; echo $?\nsrun -r5 -N1 -n1 true; echo $?\n\
                 srun -N1 -n1 -w n9 true; echo $?\nsrun; echo $?\nsrun --pty true; echo $?\n\
                 srun --multi-prog conf; echo $?\nsrun --jobid=77 true; echo $?\nsrun -n 4 echo fine";
    let said = out(&slurm, "-N 2 -n 4", lines);
    assert_eq!(said.lines().filter(|line| *line == "fine").count(), 4, "{said}");
    let statuses: Vec<&str> = said.lines().take(8).collect();
    assert!(statuses.iter().all(|status| *status != "0"), "{said}");
    let err = slurm.read("err");
    for text in [
        "srun: error: Unable to create step for job 1: More processors requested than permitted\n",
        "srun: error: Only allocated 2 nodes asked for 3\n",
        "srun: error: --relative and --nodes option incompatible with count of allocated nodes \
         (5+1>2)\n",
        "srun: error: Unable to create step for job 1: Requested node configuration is not \
         available\n",
        "srun: fatal: No command given to execute.\n",
        "--pty",
        "--multi-prog",
        "--jobid=77",
    ] {
        assert!(err.contains(text), "{text:?} in {err}");
    }
}

#[test]
fn the_status_of_a_step_is_the_highest_of_its_processes() {
    let slurm = Slurm::with_nodes(2);
    let lines = "srun -n2 -N2 sh -c 'exit $((SLURM_PROCID+3))'; echo $?\n\
                 srun -n2 -N2 sh -c '[ $SLURM_PROCID = 1 ] && kill -9 $$; exit 1'; echo $?\n\
                 srun -K -n2 -N2 sh -c '[ $SLURM_PROCID = 1 ] && exit 4; sleep 1000'; echo $?\n\
                 srun -n2 -N2 true; echo $?";
    assert_eq!(out(&slurm, "-N 2 -n 4", lines), "4\n137\n4\n0\n", "{}", slurm.read("err"));
    assert!(slurm.read("err").contains("exited with 4, and --kill-on-bad-exit is given"));
}

/// Two steps that wait for each other.
const TOGETHER: &str = "together() {\n\
    srun \"$@\" -n1 -N1 sh -c 'touch one; while [ ! -e two ]; do sleep 0.02; done' &\n\
    srun \"$@\" -n1 -N1 sh -c 'touch two; while [ ! -e one ]; do sleep 0.02; done' &\n\
    wait; rm one two; echo \"$* done\"; }";

#[test]
fn steps_run_beside_each_other_if_they_ask_for_what_they_need() {
    let slurm = Slurm::with_nodes(1);
    let lines = format!(
        "{TOGETHER}\ntogether --exact\ntogether -c1\ntogether --overlap\ntogether --exclusive\n\
         export SLURM_CPUS_PER_TASK=1\ntogether"
    );
    let said = out(&slurm, "-n 2", &lines);
    assert_eq!(said, "--exact done\n-c1 done\n--overlap done\n--exclusive done\n done\n");
}

#[test]
fn a_step_without_wishes_has_its_nodes_alone_and_others_wait_or_give_up() {
    let slurm = Slurm::with_nodes(1);
    let lines = "srun -n1 sh -c 'touch there; while [ ! -e go ]; do sleep 0.02; done' &\n\
                 while [ ! -e there ]; do sleep 0.02; done\n\
                 srun -I -n1 true; echo $?\n\
                 srun -n1 echo second 2> waits &\n\
                 while ! grep -q retrying waits; do sleep 0.02; done\ntouch go; wait; cat waits";
    assert_eq!(
        out(&slurm, "-n 2", lines),
        "1\nsecond\n\
         srun: Job 1 step creation temporarily disabled, retrying (Requested nodes are busy)\n\
         srun: Step created for job 1\n"
    );
    let text = "srun: error: Unable to create step for job 1: Requested nodes are busy\n";
    assert!(slurm.read("err").contains(text), "{}", slurm.read("err"));
}

#[test]
fn output_and_input_of_a_step_are_named_as_by_slurm() {
    let slurm = Slurm::with_nodes(2);
    let lines = "srun -n1 -N1 true\n\
                 srun -n2 -N2 -o 'f-%j-%J-%s-%t-%N-%n-%2t-%A' sh -c 'echo $SLURMD_NODENAME'\n\
                 ls f-*; cat f-*-n2-*\n\
                 srun --unbuffered -n2 -N2 --output log_%t --error log sh -c 'echo $SLURM_PROCID; echo e >&2'\n\
                 cat log_0 log_1; sort log\n\
                 echo typed > in; srun -n1 -N1 -i in cat; echo piped | srun -n1 -N1 cat\n\
                 srun -n2 -N2 -l sh -c 'echo x' | sort\n\
                 srun -n1 -N1 -D /tmp -J other sh -c 'pwd; echo $SLURM_JOB_NAME'\n\
                 srun -n1 -N1 --export=NONE sh -c 'echo ${MINE-unset}'";
    let lines = format!("export MINE=1\n{lines}");
    let expected = "f-1-1.1-1-0-n1-0-00-1\nf-1-1.1-1-1-n2-1-01-1\nn2\n0\n1\ne\ne\ntyped\npiped\n\
                    0: x\n1: x\n/tmp\nother\nunset\n";
    assert_eq!(out(&slurm, "-N 2 -n 4", &lines), expected, "{}", slurm.read("err"));
}

#[test]
fn a_step_is_told_its_own_size_and_its_jobs_nodes() {
    let slurm = Slurm::with_nodes(2);
    let lines = "srun -n1 -N1 -w n2 sh -c 'echo $SLURM_NNODES $SLURM_NODELIST $SLURM_JOB_NODELIST \
                 $SLURM_STEP_NODELIST $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_JOB_NUM_NODES'\n\
                 srun -n1 -N1 -c2 sh -c 'echo $SLURM_CPUS_PER_TASK'\n\
                 srun -n2 -N2 --ntasks-per-node=1 sh -c 'echo $SLURM_NTASKS_PER_NODE'";
    let said = out(&slurm, "-N 2 -n 4", lines);
    assert_eq!(said, "1 n[1-2] n[1-2] n2 1 1 2\n2\n1\n1\n", "{}", slurm.read("err"));
}

/// It was neither obeyed nor refused.
#[test]
fn storm_run_obeys_a_number_of_processes_on_each_node() {
    let slurm = Slurm::with_nodes(2);
    let bin = std::path::Path::new(crate::scratch::STORM).parent().expect("a directory");
    let lines = format!(
        "PATH=$PATH:{}\nstorm --quiet run -n2 --ntasks-per-node=1 sh -c 'echo $SLURMD_NODENAME' | sort\n\
         storm --quiet run --ntasks-per-node=1 sh -c 'echo $SLURMD_NODENAME' | sort",
        bin.display()
    );
    assert_eq!(out(&slurm, "-N 2 -n 4", &lines), "n1\nn2\nn1\nn2\n", "{}", slurm.read("err"));
}

#[test]
fn a_step_ends_at_its_own_time_limit() {
    let slurm = Slurm::with_nodes(1);
    let lines = "storm run --time 1s -n1 sleep 1000; echo $?\nsrun -t 5 -n1 true; echo $?";
    let bin = std::path::Path::new(crate::scratch::STORM).parent().expect("a directory");
    let lines = format!("PATH=$PATH:{}\n{lines}", bin.display());
    assert_eq!(out(&slurm, "-n 1", &lines), "143\n0\n", "{}", slurm.read("err"));
    assert!(slurm.read("err").contains("time limit"), "{}", slurm.read("err"));
}

/// The launchers of MPI that Debian has, with the variable that tells a rank.
const LAUNCHERS: [(&str, &str); 2] =
    [("mpiexec.hydra", "PMI_RANK"), ("mpirun.openmpi --allow-run-as-root", "OMPI_COMM_WORLD_RANK")];

/// The launchers that this host has.
fn launchers(slurm: &Slurm) -> impl Iterator<Item = (&'static str, &'static str)> {
    LAUNCHERS.into_iter().filter(|(launcher, _)| {
        let program = launcher.split(' ').next().expect("a word");
        let is_there = slurm.scratch.command(program).arg("--version").output().is_ok();
        if !is_there {
            eprintln!("there is no {program}: NOT tested");
        }
        is_there
    })
}

/// Prints the node of the launcher's daemon, which is a step. Hydra gives ranks the variables of
/// `mpiexec`.
const NODE_OF_DAEMON: &str =
    r#"tr "\0" "\n" < /proc/$PPID/environ | sed -n s/^SLURMD_NODENAME=//p"#;

/// Slurm's variables had the launchers call `srun`, which was refused.
#[test]
fn launchers_of_mpi_start_their_ranks_on_all_nodes_of_the_place() {
    let slurm = Slurm::with_nodes(4);
    for (launcher, rank) in launchers(&slurm) {
        for nodes in [1, 2, 4] {
            let lines = format!(
                "{launcher} -n {} sh -c 'echo ${rank} $({NODE_OF_DAEMON})' < /dev/null | sort -n",
                2 * nodes
            );
            let said = out(&slurm, &format!("--time 2 -N {nodes} -n {}", 2 * nodes), &lines);
            let place = |rank: u32| format!("{rank} n{}\n", rank / 2 + 1);
            let expected: String = (0..2 * nodes).map(place).collect();
            assert_eq!(said, expected, "{launcher} on {nodes}: {}", slurm.read("err"));
        }
    }
}

#[test]
fn ranks_of_launchers_end_with_their_job() {
    let slurm = Slurm::with_nodes(2);
    for (launcher, _) in launchers(&slurm) {
        let lines = format!("{launcher} -n 4 sh -c 'echo $$ >> pids; exec sleep 1000' < /dev/null");
        slurm.script("job.sh", &format!("#!/bin/sh\nrm -f pids\n{lines}\n"));
        let job = slurm.prints("sbatch --parsable -N 2 -n 4 -o out -e err job.sh");
        let job = job.trim();
        slurm.scratch.wait_for(&format!("show {job}"), |_| {
            (slurm.read("pids").lines().count() == 4).then_some(())
        });
        slurm.prints(&format!("scancel {job}"));
        assert_eq!(slurm.ended(job)["state"], "CANCELLED");
        for pid in slurm.read("pids").lines() {
            let alive = std::path::Path::new("/proc").join(pid).exists();
            assert!(!alive, "{launcher}: process {pid} outlives its job");
        }
    }
}

#[test]
fn srun_in_a_program_is_told_why_it_starts_nothing() {
    let slurm = Slurm::with_nodes(1);
    let done = slurm.does("srun -n1 bin/srun true");
    assert!(!done.status.success(), "{} {}", stdout(&done), stderr(&done));
    assert!(stderr(&done).contains("its elements are all taken"), "{}", stderr(&done));
}
