//! Batch scripts that were written for another cluster run unchanged under `sbatch`.

use crate::scratch::stderr;
use crate::slurm::Slurm;
use std::fs;

#[test]
fn a_script_of_another_cluster_runs_and_finds_its_place() {
    let slurm = Slurm::with_nodes(2);
    slurm.script(
        "job.sh",
        "#!/bin/bash\n#SBATCH --ntasks-per-node=2 --mail-type=END,FAIL\n\
         #SBATCH --mail-user=ada@example.org --qos=normal \\\n\
         #SBATCH --time-min=1 --job-name= -o out\n\
         echo $SLURM_NTASKS $SLURM_CPUS_ON_NODE $SLURM_NNODES ${HOME:+home} ${PATH:+path}\n",
    );
    let done = slurm.does("sbatch --export=NONE job.sh");
    assert_eq!(stderr(&done).matches("no mail is sent").count(), 1, "{}", stderr(&done));
    assert_eq!(slurm.ended("1")["state"], "COMPLETED");
    assert_eq!(slurm.read("out"), "2 2 1 home path\n");
}

#[test]
fn numbers_that_nobody_asked_for_are_unset_and_an_exclusive_node_is_whole() {
    let slurm = Slurm::with_nodes(2);
    let script = "#!/bin/sh\necho ${SLURM_NTASKS-none} $SLURM_CPUS_ON_NODE\n";
    slurm.script("job.sh", script);
    slurm.prints("sbatch --exclusive -o whole job.sh");
    slurm.ended("1");
    assert_eq!(slurm.read("whole"), "none 2\n");
    let done = slurm.does("sbatch -N 2 -n 1 -o one job.sh");
    let text = "sbatch: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n";
    assert_eq!(stderr(&done), text);
    slurm.ended("2");
    assert_eq!(slurm.read("one"), "1 1\n");
    slurm.script("step.sh", "#!/bin/sh\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_STEP\n");
    let array = slurm.prints("sbatch --parsable -a 1-4:3%0 -o a-%a step.sh");
    slurm.ended(array.trim());
    assert_eq!(slurm.read("a-4"), "4 3\n");
}

#[test]
fn a_listing_names_the_script_where_it_is() {
    let slurm = Slurm::with_nodes(1);
    fs::create_dir(slurm.scratch.work().join("sub")).expect("made");
    slurm.script("sub/job.sh", "#!/bin/sh\n:\n");
    slurm.prints("sbatch -H sub/job.sh");
    let told = slurm.prints("scontrol show job 1");
    assert!(told.lines().any(|line| line.trim().starts_with("Command=/")), "{told}");
    assert!(told.contains("/sub/job.sh"), "{told}");
}

#[test]
fn lines_that_would_be_changed_are_refused() {
    let slurm = Slurm::with_nodes(1);
    slurm.script("quote.sh", "#!/bin/sh\n#SBATCH --output=\"open\n:\n");
    slurm.script("colon.sh", "#!/bin/sh\n#SBATCH: -n 3\n:\n");
    slurm.script("number.sh", "#!/bin/sh\n#SBATCH -n two\n:\n");
    slurm.script("job.sh", "#!/bin/sh\n:\n");
    assert!(slurm.refused("sbatch quote.sh", 1).contains("Unmatched `\"`"));
    assert!(slurm.refused("sbatch colon.sh", 1).contains("Unexpected `:`"));
    assert!(slurm.refused("sbatch number.sh", 1).contains("\"two\" for --ntasks"));
    assert_eq!(
        slurm.refused("sbatch --mem=1G --mem-per-cpu=1G job.sh", 1),
        "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n"
    );
}
