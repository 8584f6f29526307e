//! The problem in a configuration file, and its place.

use super::ServiceProblem;
use super::line::line_of;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use storm_sched::ParamError;
use storm_session::{NotASerial, NotAUserName};
use thiserror::Error;

/// A file that cannot be used.
#[derive(Debug, Error)]
#[error("the configuration {}{} cannot be used", file.display(), at(.line))]
pub(crate) struct ConfigError {
    pub(crate) file: PathBuf,
    /// The line of the problem, from 1. `None` if there is none, or if the problem's text names it.
    pub(crate) line: Option<u32>,
    /// The problem.
    #[source]
    pub(crate) problem: ConfigProblem,
}

fn at(line: &Option<u32>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line},"))
}

/// The problem. If it concerns a value, its text begins with the key and a colon:
/// `line_in` finds the line by that key.
#[derive(Debug, Error)]
pub(crate) enum ConfigProblem {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("it is longer than 16 MiB")]
    TooLong,
    #[error("{}", syntax(.0))]
    Syntax(Box<toml::de::Error>),
    #[error("nodes: there are none")]
    NoNodes,
    #[error("nodes: there are more than {most}")]
    TooManyNodes { most: usize },
    #[error("{key}: {names:?} is not a list of nodes: {why}")]
    NodeList { key: String, names: String, why: String },
    #[error("{key}: {name:?} is not a name: {}", storm_pl::NAME_RULE)]
    Name { key: String, name: String },
    #[error("{key}: {name} is named twice")]
    NodeTwice { key: String, name: String },
    #[error("{key}: there is no node {name}")]
    NoSuchNode { key: String, name: String },
    #[error("nodes: {name} belongs to no partition")]
    NoPartition { name: String },
    #[error("{key}.pes: {pes} is not from 1 to {most}")]
    Pes { key: String, pes: u32, most: u32 },
    #[error(
        "{key}.features: {feature:?} is not a feature; names have letters, digits, '_', '-', '.', \
         ':' and '='"
    )]
    Feature { key: String, feature: String },
    #[error("{key}.nodes: missing; only a single partition may leave it out")]
    PartitionNodes { key: String },
    #[error("{key}.name: another partition is called {name} too")]
    PartitionTwice { key: String, name: String },
    #[error("{key}.sched: there is no policy {name:?}; there are {known}")]
    NoSuchPolicy { key: String, name: String, known: String },
    #[error("{key}: {why}")]
    Quantum { key: String, why: ParamError },
    #[error("--param: {why}")]
    Param { why: super::ParamProblem },
    #[error("{key}.default: another partition is the default already")]
    TwoDefaults { key: String },
    #[error(
        "cache-bytes: it is not from 1 to spool-bytes ({spool_bytes}): a node's cache holds nothing \
         that the spool does not"
    )]
    CacheBytes { spool_bytes: u64 },
    #[error(
        "history: it must be at least 1: clients ask the manager for a job's result after its end"
    )]
    History,
    #[error("network.{key}: {value} is not from {least} to {most}")]
    Network { key: &'static str, value: u32, least: u32, most: u32 },
    #[error("flexible.{0}")]
    Flexible(#[from] storm_nm::classes::ClassRuleError),
    #[error(
        "listen: other hosts can reach {listen}, which needs a cluster key: `storm key new FILE`, \
         then key-file in [security], and --key for every Node Manager"
    )]
    KeyNeeded { listen: SocketAddr },
    #[error(
        "clients.listen: users on {listen} need keys made from the cluster key: `storm key new \
         FILE`, then key-file in [security]"
    )]
    ClientKeyNeeded { listen: SocketAddr },
    #[error("clients.revoked: {name:?}: {why}")]
    RevokedUser { name: String, why: NotAUserName },
    #[error("clients.revoked-keys: {serial:?}: {why}")]
    RevokedKey { serial: String, why: NotASerial },
    #[error("security.previous-key-file: it needs key-file as well")]
    PreviousKeyAlone,
    #[error(transparent)]
    Service(#[from] ServiceProblem),
    #[error("timeouts.node-dead: it must be at least twice timeouts.heartbeat")]
    NodeDead,
    #[error("timeouts.node-hung: it must be at least timeouts.node-dead")]
    NodeHung,
}

impl ConfigProblem {
    /// The line of the text that the problem concerns.
    pub(super) fn line_in(&self, text: &str) -> Option<u32> {
        match self {
            // The parser's message names the line, and the other two concern the whole file.
            ConfigProblem::Read(_) | ConfigProblem::TooLong | ConfigProblem::Syntax(_) => None,
            problem => {
                let said = problem.to_string();
                let (key, _) = said.split_once(':')?;
                line_of(text, key)
            }
        }
    }
}

/// The parser's message, put in terms of the file where it uses those of the program.
fn syntax(error: &toml::de::Error) -> String {
    let said = error.to_string();
    if said.contains("duplicate key") {
        let said = said.trim_end();
        return format!("{said}\na table such as [clients] may occur once only, with all its keys");
    }
    match said.contains("invalid type: map, expected a sequence") {
        true => format!(
            "{}\ntables that may occur several times have two brackets: [[nodes]], [[partitions]], \
             [[accounts]], [[qos]]",
            said.trim_end()
        ),
        false => said,
    }
}
