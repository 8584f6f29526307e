//! The kernels of `apps/kernels`, and `apps/sweep3d`, under each policy that runs jobs and each way
//! to wait. The Rust and C programs must give the same answers. Several jobs run at once, so that
//! gang scheduling stops ranks in the middle of their work.

use crate::scratch::{STORM, Scratch, mpi_program, stderr, stdout, sweep3d, told};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const POLICIES: [&str; 8] = ["gang", "fcfs", "backfill", "bcs", "fcs", "local", "ics", "pb"];
/// Every value of `STORM_MPI_WAIT`, and none.
const WAITS: [&str; 4] = ["spin", "block", "spin-block", ""];
const CASES: [&str; 5] = [
    "ring 1 3000",
    "stencil 37 24",
    "fft 64 1",
    "sweep3d --grid 13x12x4 --sn 2 --mk 2 --iterations 2",
    "bsp --steps 3 --granularity 200 --imbalance 2 --heterogeneity 1.5",
];
/// The case with the fewest messages.
const FEW: &[&str] = CASES.last_chunk::<1>().expect("one of them");

/// The case that is a program of its own.
const SWEEP3D: &str = "sweep3d";

/// The programs, a cluster of two nodes per policy, and the answers so far.
struct Kernels {
    scratch: Scratch,
    rust: PathBuf,
    sweep3d: PathBuf,
    c: BTreeMap<&'static str, PathBuf>,
    /// By case and number of ranks.
    answers: BTreeMap<(&'static str, u32), String>,
}

impl Kernels {
    fn make(pes: u32) -> Kernels {
        let scratch = Scratch::make();
        let rust = Path::new(STORM).with_file_name("kernels");
        assert!(rust.exists(), "{} is missing: cargo build -p kernels", rust.display());
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps");
        let kernels = CASES.iter().map(|case| name(case));
        let c = kernels.map(|kernel| {
            let package = if kernel == SWEEP3D { kernel } else { "kernels" };
            let source = apps.join(package).join("c").join(format!("{kernel}.c"));
            (kernel, mpi_program::compiled(&scratch, &source))
        });
        let c = c.collect();
        let policies = POLICIES.join(",");
        let nodes = 2 * POLICIES.len();
        scratch.prints(&format!("up --nodes {nodes} --pes {pes} --sched {policies} --quantum 5ms"));
        Kernels { scratch, rust, sweep3d: sweep3d(), c, answers: BTreeMap::new() }
    }

    /// Runs these cases at once in both languages, and compares each answer with earlier ones.
    fn agree(&mut self, policy: &str, wait: &str, ranks: u32, cases: &[&'static str]) {
        let jobs: Vec<(&'static str, Child)> = cases
            .iter()
            .flat_map(|&case| [(case, false), (case, true)])
            .map(|(case, in_c)| (case, self.start(policy, wait, ranks, case, in_c)))
            .collect();
        for (case, job) in jobs {
            let done = job.wait_with_output().expect("it was started");
            assert!(done.status.success(), "{case}, {policy}, {wait}: {}", told(&done));
            let answer = stdout(&done).lines().next().unwrap_or_default().to_owned();
            assert!(answer.contains(&format!(": {ranks} ranks, ")), "{}", told(&done));
            let expected = self.answers.entry((case, ranks)).or_insert_with(|| answer.clone());
            assert_eq!(answer, *expected, "{case}, {policy}, {wait}");
        }
    }

    fn start(&self, policy: &str, wait: &str, ranks: u32, case: &'static str, in_c: bool) -> Child {
        let ranks = ranks.to_string();
        let mut command = self.scratch.storm(["run", "-N", "2", "-n", &ranks, "--sched", policy]);
        command.env("STORM_MPI_WAIT", wait);
        let mut words = case.split(' ');
        if in_c {
            command.arg(&self.c[name(case)]);
            words.next();
        } else if name(case) == SWEEP3D {
            words.next();
            command.args([&*self.sweep3d, Path::new("--brief")]);
        } else {
            command.arg(&self.rust);
        }
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("storm starts")
    }
}

/// The kernel of a case.
fn name(case: &'static str) -> &'static str {
    case.split_once(' ').map_or(case, |(name, _)| name)
}

#[test]
fn the_same_answers_under_every_policy_in_every_way_to_wait() {
    let mut kernels = Kernels::make(8);
    for ranks in [2, 16] {
        for policy in POLICIES {
            for wait in WAITS {
                // If there are more ranks than processors, each message of a spinning rank takes
                // time slices of the others. So only the case with the fewest messages is run.
                let few = wait == "spin" && ranks > 2;
                kernels.agree(policy, wait, ranks, if few { FEW } else { &CASES });
            }
        }
    }
}

#[test]
fn the_same_answers_on_sixty_four_ranks_under_every_policy() {
    let mut kernels = Kernels::make(32);
    for policy in POLICIES {
        kernels.agree(policy, "", 64, &CASES);
    }
}

#[test]
fn ranks_restricted_to_rdma_learn_that_there_is_no_device() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 2 --pes 1");
    let kernels = Path::new(STORM).with_file_name("kernels");
    let run = |network: &str| {
        let mut command = scratch.storm(["run", "-N", "2", "-n", "2"]);
        command.env("STORM_MPI_NETWORK", network).env("STORM_MPI_RDMA_DEVICE", "none-of-this-name");
        command.arg(&kernels).arg("ring").output().expect("storm starts")
    };
    let refused = run("verbs");
    assert!(!refused.status.success(), "{}", told(&refused));
    assert!(stderr(&refused).contains("RDMA is not available"), "{}", told(&refused));
    let by_tcp = run("auto");
    assert!(by_tcp.status.success(), "{}", told(&by_tcp));
}
