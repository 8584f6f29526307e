//! The program of a step and its surroundings: everything that a node needs to start its processes.

use crate::{
    Binding, Environment, FileSpec, InputSpec, OpenMode, OsBytes, OutputSpec, Program,
    ResourceLimit,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A step as requested. The job's place has the nodes and elements for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The program to execute.
    pub program: Program,
    /// The argument vector, `argv[0]` included.
    pub argv: Vec<OsBytes>,
    /// The whole environment, without what STORM adds.
    pub env: Environment,
    /// Working directory on the nodes.
    pub cwd: OsBytes,
    /// File mode creation mask.
    pub umask: u32,
    /// Soft limits of the submitting shell to set for each process.
    pub limits: Vec<ResourceLimit>,
    /// Further files to ship.
    pub files: Vec<FileSpec>,
    /// The destination of the output.
    pub output: OutputSpec,
    /// Treatment of output files that exist.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// The source of the ranks' standard input.
    pub input: InputSpec,
    /// Where on its node each rank may run.
    pub bind: Binding,
    /// The step ends as soon as one of its processes ends with another status than 0
    /// (`srun --kill-on-bad-exit`).
    #[serde(default)]
    pub kill_on_bad_exit: bool,
    /// A further step of a job is ended after running this long. The limit of a first step is that
    /// of its job.
    #[serde(default)]
    pub time_limit: Option<Duration>,
}

impl StepSpec {
    /// A step whose only argument is `name`. It has no environment, runs in `/`, and sends its
    /// output to the client.
    pub fn plain(name: &str, program: Program) -> StepSpec {
        StepSpec {
            program,
            argv: vec![name.into()],
            env: Environment::default(),
            cwd: "/".into(),
            umask: 0o022,
            limits: Vec::new(),
            files: Vec::new(),
            output: OutputSpec::Client,
            open_mode: OpenMode::Usual,
            input: InputSpec::None,
            bind: Binding::None,
            kill_on_bad_exit: false,
            time_limit: None,
        }
    }
}
