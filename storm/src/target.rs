//! Which cluster a command addresses.

use crate::cli::{ClusterOptions, EmbeddedOptions, NodeAddress};
use crate::config::refuse_both;
use crate::failure::{EXIT_USAGE, Failure};
use crate::key_file;
use crate::manager::Manager;
use crate::own_cluster::other_host_of;
use crate::variables::{KEY_VARIABLE, MANAGER_VARIABLE, SOCKET_VARIABLE};
use std::env;
use std::path::{Path, PathBuf};

/// Where a system-wide Machine Manager listens.
pub(crate) const SYSTEM_SOCKET: &str = "/run/storm/mm.sock";

/// Default path of that file, below the user's configuration directory.
const KEY_FILE: &str = "storm/client.key";

/// Where a Machine Manager is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A socket of this host.
    Socket(PathBuf),
    /// A socket of the named other host. A job of that cluster asks on one of its nodes.
    SocketElsewhere(String),
    /// A manager on another host.
    Remote {
        /// Its address for users.
        address: NodeAddress,
        /// The file of our key.
        key: PathBuf,
    },
}

impl Place {
    /// Reads the key if there is one, and returns a manager to connect to.
    pub(crate) fn open(&self) -> Result<Manager, Failure> {
        match self {
            Place::Socket(path) => Ok(Manager::at(path)),
            Place::SocketElsewhere(host) => Err(elsewhere(host)),
            Place::Remote { address, key } => Ok(Manager::Remote {
                address: address.as_str().to_owned(),
                key_file: key.clone(),
                key: key_file::read(key).map_err(|error| {
                    Failure::from(error).hint(
                        "your key for the manager on another host: the administrator of the cluster \
                         makes one with `storm key client`; --key names its file",
                    )
                })?,
            }),
        }
    }
}

/// The environment variable that names another cluster than the one with this socket, if any.
pub(crate) fn variable_of_another(socket: Option<&Path>) -> Option<&'static str> {
    let value = |name| env::var_os(name).filter(|value| !value.is_empty());
    // Jobs of a kept cluster have its own socket in the variable.
    match value(SOCKET_VARIABLE) {
        Some(named) if socket == Some(Path::new(&named)) => None,
        Some(_) => Some(SOCKET_VARIABLE),
        None => value(MANAGER_VARIABLE).map(|_| MANAGER_VARIABLE),
    }
}

/// The socket of the cluster that `storm up` keeps, if any. If that cluster has died it is an
/// error, so that no command silently addresses another cluster.
pub(crate) type Kept = Result<Option<PathBuf>, Failure>;

/// The possible clusters, in order of precedence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    /// `--socket` or `--manager`.
    pub(crate) option: Option<Place>,
    /// `STORM_SOCKET`, or else `STORM_MANAGER`.
    pub(crate) variable: Option<Place>,
    /// The cluster that `storm up` keeps for this user, or the error that it has died.
    pub(crate) kept: Kept,
    /// The system-wide socket, if it exists.
    pub(crate) system: Option<Place>,
    /// `--key` was given, which means a manager on another host.
    pub(crate) key: bool,
}

impl Choices {
    /// Reads options and environment. An empty variable counts as unset.
    pub(crate) fn find(options: &ClusterOptions, kept: Kept) -> Result<Choices, Failure> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let remote = |address: NodeAddress| -> Result<Place, Failure> {
            let given = options.key.clone().or_else(|| variable(KEY_VARIABLE).map(PathBuf::from));
            let key = given.or_else(own_key_file).ok_or_else(no_key_file)?;
            Ok(Place::Remote { address, key })
        };
        let option = match (&options.socket, &options.manager) {
            (Some(path), _) => Some(Place::Socket(path.clone())),
            (None, Some(address)) => Some(remote(address.clone())?),
            (None, None) => None,
        };
        let variable = match (variable(SOCKET_VARIABLE), variable(MANAGER_VARIABLE)) {
            // An option takes precedence, so a wrong variable does not matter.
            _ if option.is_some() => None,
            (Some(path), _) if options.key.is_none() => Some(match other_host_of(&path) {
                Some(host) => Place::SocketElsewhere(host),
                None => Place::Socket(path.into()),
            }),
            (_, Some(address)) => {
                let address = address.to_string_lossy().parse().map_err(|error| {
                    let failure = Failure::of("usage", &error).exit(EXIT_USAGE);
                    failure.hint("STORM_MANAGER has to be of that form")
                })?;
                Some(remote(address)?)
            }
            (_, None) => None,
        };
        let system = PathBuf::from(SYSTEM_SOCKET);
        Ok(Choices {
            option,
            variable,
            kept,
            system: system.exists().then_some(Place::Socket(system)),
            key: options.key.is_some(),
        })
    }

    /// The cluster, if there is any.
    pub(crate) fn place(self) -> Result<Option<Place>, Failure> {
        let place = match self.option.or(self.variable) {
            None => self.kept?.map(Place::Socket).or(self.system),
            named => named,
        };
        match place {
            Some(Place::Remote { .. }) => Ok(place),
            _ if self.key => Err(Failure::new("usage", "--key is for a manager on another host")
                .hint("name that manager with --manager or STORM_MANAGER")
                .exit(EXIT_USAGE)),
            _ => Ok(place),
        }
    }

    /// Whether there is any cluster.
    fn is_any_there(&self) -> bool {
        let is_kept = matches!(self.kept, Ok(Some(_)));
        is_kept || self.option.is_some() || self.variable.is_some() || self.system.is_some()
    }

    /// The cluster, for a command that needs one.
    pub(crate) fn required(self) -> Result<Place, Failure> {
        self.place()?.ok_or_else(|| {
            Failure::new("no-cluster", "no cluster is configured").hint(
                "`storm up` starts one on this machine; --socket or STORM_SOCKET names another, \
                 --manager or STORM_MANAGER one on another host",
            )
        })
    }

    /// The cluster for a job: `--nodes` and `--pes` select an embedded one.
    pub(crate) fn for_job(self, embedded: &EmbeddedOptions) -> Result<Target, Failure> {
        if embedded.quantum.is_some() {
            refuse_both("--quantum", "quantum-us", &embedded.params)
                .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
        }
        if embedded.nodes.is_some() || embedded.pes.is_some() {
            let is_another_there = self.is_any_there();
            return Ok(Target::Embedded { why: Why::AskedFor { is_another_there } });
        }
        let own =
            [("--quantum", embedded.quantum.is_some()), ("--param", !embedded.params.is_empty())];
        let own = own.into_iter().find(|(_, given)| *given);
        match (self.place()?, own) {
            (Some(_), Some((option, _))) => {
                let message = format!(
                    "{option} is for an embedded cluster, but this job goes to a configured one"
                );
                Err(Failure::new("usage", message)
                    .hint("give --nodes too, to use an embedded cluster"))
            }
            (Some(place), None) => Ok(Target::Cluster(place)),
            (None, _) => Ok(Target::Embedded { why: Why::NoCluster }),
        }
    }
}

/// The cluster for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An existing cluster.
    Cluster(Place),
    /// A cluster made for the job.
    Embedded {
        /// The reason.
        why: Why,
    },
}

/// Why a cluster is made for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// There is no other cluster.
    NoCluster,
    /// `--nodes` or `--pes` was given.
    AskedFor {
        /// Whether the job would otherwise have gone to another cluster.
        is_another_there: bool,
    },
}

/// The default path of a user's key (XDG Base Directory Specification).
fn own_key_file() -> Option<PathBuf> {
    let configured = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".config"));
    let directory = configured.filter(|path| path.is_absolute()).or_else(home)?;
    Some(directory.join(KEY_FILE))
}

fn elsewhere(host: &str) -> Failure {
    let message = format!("the manager of this job's cluster is on another host, {host}");
    Failure::new("no-manager", message).hint(format!(
        "--manager {host}:PORT and --key reach it where it listens for users ([clients]); with \
         an empty {SOCKET_VARIABLE} the cluster of this host is meant"
    ))
}

fn no_key_file() -> Failure {
    Failure::new("key", "there is no home directory to look for a client key in")
        .hint("--key or STORM_CLIENT_KEY names the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(given: [bool; 4]) -> Choices {
        let path = |given: bool, name: &str| given.then(|| Place::Socket(PathBuf::from(name)));
        Choices {
            option: path(given[0], "option"),
            variable: path(given[1], "variable"),
            kept: Ok(given[2].then(|| PathBuf::from("kept"))),
            system: path(given[3], "system"),
            key: false,
        }
    }

    #[test]
    fn a_key_is_for_another_host() {
        let local = Choices { key: true, ..choices([true; 4]) };
        let refused = local.required().expect_err("a socket needs no key");
        assert_eq!((refused.exit, refused.code.as_str()), (EXIT_USAGE, "usage"));
        let address = "head:7118".parse().expect("an address");
        let option = Some(Place::Remote { address, key: "k".into() });
        let remote = Choices { key: true, option, ..choices([true; 4]) };
        assert!(matches!(remote.required(), Ok(Place::Remote { .. })));
    }

    #[test]
    fn the_nearest_cluster_wins() {
        let order = ["option", "variable", "kept", "system"];
        for (first, name) in order.into_iter().enumerate() {
            let given = std::array::from_fn(|index| index >= first);
            assert_eq!(choices(given).required(), Ok(Place::Socket(PathBuf::from(name))));
        }
        assert_eq!(choices([false; 4]).place(), Ok(None));
        assert!(choices([false; 4]).required().is_err());
    }

    #[test]
    fn no_other_cluster_is_taken_for_one_that_died() {
        let died = || Failure::new("cluster-died", "it has died");
        let with = |given| Choices { kept: Err(died()), ..choices(given) };
        let none = EmbeddedOptions::default();
        assert_eq!(with([false, false, true, true]).required(), Err(died()));
        assert_eq!(with([false; 4]).for_job(&none), Err(died()), "not a new one either");
        let sized = EmbeddedOptions { pes: Some(4), ..EmbeddedOptions::default() };
        let embedded = with([false; 4]).for_job(&sized);
        let why = Why::AskedFor { is_another_there: false };
        assert_eq!(embedded, Ok(Target::Embedded { why }));
        assert!(with([false, true, false, false]).required().is_ok(), "another was named");
    }

    #[test]
    fn a_size_means_an_embedded_cluster_whatever_else_there_is() {
        let sized = EmbeddedOptions { nodes: Some(4), ..EmbeddedOptions::default() };
        let target = choices([false, true, true, true]).for_job(&sized);
        let why = Why::AskedFor { is_another_there: true };
        assert_eq!(target, Ok(Target::Embedded { why }), "which is told to who meant -N");
    }

    #[test]
    fn a_job_without_a_cluster_gets_one() {
        let none = EmbeddedOptions::default();
        assert_eq!(
            choices([false; 4]).for_job(&none),
            Ok(Target::Embedded { why: Why::NoCluster })
        );
        let cluster = choices([false, false, true, false]).for_job(&none);
        assert_eq!(cluster, Ok(Target::Cluster(Place::Socket(PathBuf::from("kept")))));
    }

    #[test]
    fn the_quantum_of_a_configured_cluster_is_not_the_jobs_to_choose() {
        let quantum = Some(std::time::Duration::from_millis(2));
        let options = EmbeddedOptions { quantum, ..EmbeddedOptions::default() };
        assert!(choices([true; 4]).for_job(&options).is_err());
        assert!(choices([false; 4]).for_job(&options).is_ok());
        let params = vec!["mpl-limit=2".parse().expect("a parameter")];
        let options = EmbeddedOptions { params, ..EmbeddedOptions::default() };
        let refused = choices([true; 4]).for_job(&options).expect_err("it is configured");
        assert!(refused.message.starts_with("--param is for an embedded cluster"));
    }
}
