//! Variables that stand for options of sbatch(1), srun(1) and salloc(1).

use super::{Given, UsageError, Value};
use crate::Verb;
use std::ffi::OsString;
use thiserror::Error;

/// Names without their prefix, and the option.
const COMMON: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("CONSTRAINT", "constraint"),
    ("CLUSTERS", "clusters"),
    ("EXCLUSIVE", "exclusive"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GRES", "gres"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_NODE", "mem"),
    ("NO_KILL", "no-kill"),
    ("OVERCOMMIT", "overcommit"),
    ("PARTITION", "partition"),
    ("QOS", "qos"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("TIMELIMIT", "time"),
    ("WCKEY", "wckey"),
];
const OF_SBATCH: &[(&str, &str)] = &[
    ("ARRAY_INX", "array"),
    ("COMMENT", "comment"),
    ("ERROR", "error"),
    ("EXPORT", "export"),
    ("GET_USER_ENV", "get-user-env"),
    ("INPUT", "input"),
    ("JOB_NAME", "job-name"),
    ("NO_REQUEUE", "no-requeue"),
    ("OPEN_MODE", "open-mode"),
    ("OUTPUT", "output"),
    ("REQUEUE", "requeue"),
    ("WAIT", "wait"),
];
/// With the prefix `SLURM_`: a batch job's own variables of these names are options of its steps.
const OF_SRUN: &[(&str, &str)] = &[
    ("CPU_BIND", "cpu-bind"),
    ("EXACT", "exact"),
    ("EXPORT_ENV", "export"),
    ("JOB_NAME", "job-name"),
    ("KILL_BAD_EXIT", "kill-on-bad-exit"),
    ("LABELIO", "label"),
    ("MPI_TYPE", "mpi"),
    ("NNODES", "nodes"),
    ("NTASKS", "ntasks"),
    ("NTASKS_PER_NODE", "ntasks-per-node"),
    ("OPEN_MODE", "open-mode"),
    ("OVERLAP", "overlap"),
    ("REMOTE_CWD", "chdir"),
    ("STDERRMODE", "error"),
    ("STDINMODE", "input"),
    ("STDOUTMODE", "output"),
    ("UNBUFFEREDIO", "unbuffered"),
];

/// A variable has a value that its option does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the variable {variable} stands for --{option}: {source}")]
pub struct NotAValue {
    /// The variable.
    pub variable: String,
    /// The long name of its option.
    pub option: String,
    /// The mistake.
    pub source: UsageError,
}

/// The options that variables stand for. An empty variable stands for none.
///
/// # Errors
/// A variable has a value that its option does not take.
pub fn of_variables(
    verb: Verb,
    value_of: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Given>, NotAValue> {
    let (prefix, own): (_, &[_]) = match verb {
        Verb::Sbatch => ("SBATCH_", OF_SBATCH),
        Verb::Salloc => ("SALLOC_", &[]),
        Verb::Srun => ("SLURM_", OF_SRUN),
        _ => return Ok(Vec::new()),
    };
    let mut all = Vec::new();
    for (name, option) in COMMON.iter().chain(own) {
        let variable = format!("{prefix}{name}");
        let Some(value) = value_of(&variable).filter(|value| !value.is_empty()) else { continue };
        let Some(row) = super::of(verb).find(|row| row.is(option)) else { continue };
        let written = format!("--{option}={}", value.to_string_lossy());
        // An option without a value is given by any value of its variable.
        let value = Some(value).filter(|_| row.value != Value::No);
        let given = Given { option: row, value, written }.checked();
        let option = (*option).to_owned();
        all.push(given.map_err(|source| NotAValue { variable, option, source })?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(verb: Verb, set: &[(&str, &str)]) -> Result<Vec<String>, NotAValue> {
        let all = of_variables(verb, |name| {
            let found = set.iter().find(|(known, _)| *known == name)?;
            Some(found.1.into())
        });
        Ok(all?.into_iter().map(|given| given.written).collect())
    }

    #[test]
    fn variables_stand_for_options() {
        let set = [("SBATCH_TIMELIMIT", "5"), ("SBATCH_REQUEUE", "1"), ("SBATCH_QOS", "")];
        assert_eq!(given(Verb::Sbatch, &set).expect("right"), ["--time=5", "--requeue=1"]);
        assert_eq!(given(Verb::Srun, &set).expect("none"), Vec::<String>::new());
        let wrong = given(Verb::Sbatch, &[("SBATCH_TIMELIMIT", "soon")]).expect_err("no time");
        assert_eq!(
            wrong.to_string(),
            "the variable SBATCH_TIMELIMIT stands for --time: Invalid --time specification"
        );
    }
}
