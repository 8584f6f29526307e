//! Needs of waiting jobs that the configuration does not meet
//! (`docs/decisions/0132-jobs-wait-for-the-configuration.md`).

use std::fmt;

/// The first unmet need of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::manager) enum Unmet {
    /// No partition has this name.
    Partition(String),
    /// The nodes of this partition are too few, too small, or lack a feature.
    Nodes { partition: String, why: String },
    /// No account has this name.
    Account(String),
    /// No quality of service has this name.
    Qos(String),
    /// The account is for these users, who are unknown to the host; the owner may be one of them.
    AccountUsers { account: String, users: String },
    /// The quality of service is for these users, who are unknown to the host; the owner may be one
    /// of them.
    QosUsers { qos: String, users: String },
    /// The specification does not fit into a message to the nodes.
    Room { why: String },
    /// A file of the job is missing from the spool.
    Files,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::Partition(name) => write!(
                f,
                "partition {name} is not in the configuration: the job waits until the manager is \
                 started with it (PartitionConfig)"
            ),
            Unmet::Nodes { partition, why } => write!(
                f,
                "partition {partition} as it is configured now cannot run it: {why} \
                 (BadConstraints)"
            ),
            Unmet::Account(name) => write!(
                f,
                "account {name} is not in the configuration: the job waits until the manager is \
                 started with it (InvalidAccount)"
            ),
            Unmet::Qos(name) => write!(
                f,
                "quality of service {name} is not in the configuration: the job waits until the \
                 manager is started with it (InvalidQOS)"
            ),
            Unmet::AccountUsers { account, users } => write!(
                f,
                "account {account} is for {users}, and the manager's host knows no such user: the \
                 job waits until it does (InvalidAccount)"
            ),
            Unmet::QosUsers { qos, users } => write!(
                f,
                "quality of service {qos} is for {users}, and the manager's host knows no such \
                 user: the job waits until it does (InvalidQOS)"
            ),
            Unmet::Room { why } => write!(
                f,
                "heartbeat-bytes in the configuration is too small for it: {why}; the job waits \
                 until the manager is started with more (BadConstraints)"
            ),
            Unmet::Files => f.write_str(
                "a file that it was submitted with is not in the manager's spool any more: submit \
                 the job again, and cancel this one (MissingFiles)",
            ),
        }
    }
}
