//! Launchers with jobs that the library does not join. Each process that they start becomes a job
//! of its own, which the user did not intend.

use std::env;
use std::io::{self, Write};

/// Their variables with the number of processes and the number of the process.
const OTHERS: [(&str, &str, &str); 2] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun of Open MPI"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
];

/// Warns once for all processes if this process has joined no job.
pub(crate) fn warn_if_alone() {
    if env::var_os("PMI_FD").is_some() {
        return;
    }
    if let Some((size, launcher)) = of_many(|name| env::var(name).ok()) {
        // A failure to warn cannot be reported either.
        let _ = writeln!(
            io::stderr(),
            "storm-mpi: {launcher} has started {size} processes, and each is a job of one: this program is \
             linked with storm-mpi, and is started by `storm run -n {size}` or MPICH's mpiexec"
        );
    }
}

/// The number of processes that such a launcher has started, and its name. Only the first process
/// gets it.
fn of_many(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, &'static str)> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    OTHERS.iter().find_map(|&(size, rank, launcher)| {
        let size = number(size).filter(|size| *size > 1)?;
        (number(rank)? == 0).then_some((size, launcher))
    })
}

#[cfg(test)]
mod tests {
    use super::of_many;

    #[test]
    fn the_first_of_several_says_it() {
        let told = |size: &'static str, rank: &'static str| {
            of_many(|name| match name {
                "OMPI_COMM_WORLD_SIZE" => Some(size.to_owned()),
                "OMPI_COMM_WORLD_RANK" => Some(rank.to_owned()),
                _ => None,
            })
        };
        assert_eq!(told("4", "0"), Some((4, "mpirun of Open MPI")));
        assert_eq!([told("4", "1"), told("1", "0"), told("", "0")], [None; 3]);
        assert_eq!(of_many(|_| None), None);
    }
}
