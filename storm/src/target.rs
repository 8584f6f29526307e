//! Which cluster a command speaks to.

use crate::cli::EmbeddedOptions;
use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// Where a system-wide Machine Manager listens.
pub(crate) const SYSTEM_SOCKET: &str = "/run/storm/mm.sock";

/// The variable that names a socket.
pub(crate) const SOCKET_VARIABLE: &str = "STORM_SOCKET";

/// What there is to choose from, in order of precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    /// `--socket`.
    pub(crate) option: Option<PathBuf>,
    /// `STORM_SOCKET`.
    pub(crate) variable: Option<PathBuf>,
    /// The cluster that `storm up` keeps for this user.
    pub(crate) kept: Option<PathBuf>,
    /// The system-wide socket, if it exists.
    pub(crate) system: Option<PathBuf>,
}

impl Choices {
    /// What this process finds. An empty variable counts as none.
    pub(crate) fn find(option: Option<&Path>, kept: Option<PathBuf>) -> Choices {
        let variable = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty());
        let system = PathBuf::from(SYSTEM_SOCKET);
        Choices {
            option: option.map(Path::to_owned),
            variable: variable.map(PathBuf::from),
            kept,
            system: system.exists().then_some(system),
        }
    }

    /// The socket of the cluster, if any is configured.
    pub(crate) fn socket(self) -> Option<PathBuf> {
        self.option.or(self.variable).or(self.kept).or(self.system)
    }

    /// The socket, which a command that needs a cluster must have.
    pub(crate) fn required(self) -> Result<PathBuf, Failure> {
        self.socket().ok_or_else(|| {
            Failure::new("no-cluster", "no cluster is configured").hint(
                "`storm up` starts one on this machine; --socket or STORM_SOCKET names another",
            )
        })
    }

    /// Where a job goes: `--nodes` and `--pes` mean an embedded cluster.
    pub(crate) fn for_job(self, embedded: &EmbeddedOptions) -> Result<Target, Failure> {
        if embedded.nodes.is_some() || embedded.pes.is_some() {
            return Ok(Target::Embedded { asked_for: true });
        }
        match self.socket() {
            Some(_) if embedded.quantum.is_some() => Err(Failure::new(
                "usage",
                "--quantum is of an embedded cluster, and this job goes to a configured one",
            )
            .hint("give --nodes as well for an embedded one")),
            Some(socket) => Ok(Target::Cluster(socket)),
            None => Ok(Target::Embedded { asked_for: false }),
        }
    }
}

/// Where a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the cluster behind this socket.
    Cluster(PathBuf),
    /// To a cluster made for it.
    Embedded {
        /// By `--nodes` or `--pes`, not for lack of another.
        asked_for: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(given: [bool; 4]) -> Choices {
        let path = |given: bool, name: &str| given.then(|| PathBuf::from(name));
        Choices {
            option: path(given[0], "option"),
            variable: path(given[1], "variable"),
            kept: path(given[2], "kept"),
            system: path(given[3], "system"),
        }
    }

    #[test]
    fn the_nearest_cluster_wins() {
        let order = ["option", "variable", "kept", "system"];
        for (first, name) in order.into_iter().enumerate() {
            let given = std::array::from_fn(|index| index >= first);
            assert_eq!(choices(given).socket(), Some(PathBuf::from(name)));
        }
        assert_eq!(choices([false; 4]).socket(), None);
        assert!(choices([false; 4]).required().is_err());
    }

    #[test]
    fn a_size_means_an_embedded_cluster_whatever_else_there_is() {
        let sized = EmbeddedOptions { nodes: Some(4), ..EmbeddedOptions::default() };
        let target = choices([false, true, true, true]).for_job(&sized);
        assert_eq!(target, Ok(Target::Embedded { asked_for: true }));
    }

    #[test]
    fn a_job_without_a_cluster_gets_one() {
        let none = EmbeddedOptions::default();
        assert_eq!(choices([false; 4]).for_job(&none), Ok(Target::Embedded { asked_for: false }));
        let cluster = choices([false, false, true, false]).for_job(&none);
        assert_eq!(cluster, Ok(Target::Cluster(PathBuf::from("kept"))));
    }

    #[test]
    fn the_quantum_of_a_configured_cluster_is_not_the_jobs_to_choose() {
        let quantum = Some(std::time::Duration::from_millis(2));
        let options = EmbeddedOptions { quantum, ..EmbeddedOptions::default() };
        assert!(choices([true; 4]).for_job(&options).is_err());
        assert!(choices([false; 4]).for_job(&options).is_ok());
    }
}
