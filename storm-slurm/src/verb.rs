//! The names of Slurm's commands.

/// A command of Slurm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Sbatch,
    Srun,
    Salloc,
    Squeue,
    Scancel,
    Sinfo,
    Scontrol,
    Sacct,
    Sacctmgr,
    Sshare,
    Sprio,
    Sstat,
    Sdiag,
    Sreport,
    Sbcast,
    Sattach,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 16] = [
        Verb::Sbatch,
        Verb::Srun,
        Verb::Salloc,
        Verb::Squeue,
        Verb::Scancel,
        Verb::Sinfo,
        Verb::Scontrol,
        Verb::Sacct,
        Verb::Sacctmgr,
        Verb::Sshare,
        Verb::Sprio,
        Verb::Sstat,
        Verb::Sdiag,
        Verb::Sreport,
        Verb::Sbcast,
        Verb::Sattach,
    ];

    /// The command of this name.
    pub fn named(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// The name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Sbatch => "sbatch",
            Verb::Srun => "srun",
            Verb::Salloc => "salloc",
            Verb::Squeue => "squeue",
            Verb::Scancel => "scancel",
            Verb::Sinfo => "sinfo",
            Verb::Scontrol => "scontrol",
            Verb::Sacct => "sacct",
            Verb::Sacctmgr => "sacctmgr",
            Verb::Sshare => "sshare",
            Verb::Sprio => "sprio",
            Verb::Sstat => "sstat",
            Verb::Sdiag => "sdiag",
            Verb::Sreport => "sreport",
            Verb::Sbcast => "sbcast",
            Verb::Sattach => "sattach",
        }
    }

    /// The command of storm for the same purpose.
    pub fn of_storm(self) -> &'static str {
        match self {
            Verb::Sbatch => "storm batch",
            Verb::Srun | Verb::Salloc => "storm run",
            Verb::Squeue => "storm queue",
            Verb::Scancel => "storm cancel",
            Verb::Sinfo => "storm nodes",
            Verb::Scontrol | Verb::Sstat => "storm show",
            Verb::Sacct | Verb::Sreport => "storm hist",
            Verb::Sacctmgr | Verb::Sshare => "storm shares",
            Verb::Sprio => "storm priority",
            Verb::Sdiag => "storm partition",
            Verb::Sbcast => "storm submit --bcast FILE",
            Verb::Sattach => "storm show",
        }
    }

    /// Whether options end at the first operand, which begins a command or names a script.
    pub fn has_command(self) -> bool {
        matches!(self, Verb::Sbatch | Verb::Srun | Verb::Salloc)
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.name())
    }
}
