//! A job's demands on each of its nodes in addition to PEs, as text.
//!
//! The text says that features are required, but not which: the job's owner knows them. So a reason
//! consists of only a few numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobRequest, MemorySize, NodeMemory};

/// The demands of a job on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNeeds {
    /// The PEs of each process.
    pub pes_per_proc: u32,
    /// The most processes on a node.
    pub procs_per_node: Option<u32>,
    /// The memory for each PE, in bytes.
    pub mem_per_pe_bytes: u64,
    /// The additional memory on the node.
    pub mem_per_node: NodeMemory,
    /// Whether no other job may be on the node.
    pub exclusive: bool,
    /// Whether features are asked for.
    pub features: bool,
    /// Whether the job allows some nodes only, by name.
    #[serde(default)]
    pub names: bool,
}

impl NodeNeeds {
    /// No demand other than PEs.
    pub const NONE: Self = Self {
        pes_per_proc: 1,
        procs_per_node: None,
        mem_per_pe_bytes: 0,
        mem_per_node: NodeMemory::Unstated,
        exclusive: false,
        features: false,
        names: false,
    };

    /// The demands of a request.
    #[must_use]
    pub fn of(request: &JobRequest) -> Self {
        Self {
            pes_per_proc: request.pes_per_proc,
            procs_per_node: request.procs_per_node,
            mem_per_pe_bytes: request.mem_per_pe_bytes,
            mem_per_node: request.mem_per_node,
            exclusive: request.exclusive,
            features: request.constraint.is_some(),
            names: request.choice.is_some(),
        }
    }

    /// The demand on a node for this number of ranks: "2 free PEs and 4 GiB of free memory". `free`
    /// is "free " or empty.
    pub(crate) fn for_ranks(self, ranks: u32, free: &str) -> String {
        let pes = ranks.saturating_mul(self.pes_per_proc);
        let mut parts = vec![plural(pes, free, "PE")];
        parts.extend(self.memory(u64::from(pes), free));
        parts.extend(self.other());
        list(&parts)
    }

    /// The demand on nodes for any number of processes: "the features asked for and 2 free PEs for
    /// each process".
    pub(crate) fn for_procs(self, free: &str) -> String {
        let each = plural(self.pes_per_proc, free, "PE");
        let mut parts = match self.mem_per_pe_bytes {
            0 => vec![format!("{each} for each process")],
            bytes => {
                let of_each = bytes.saturating_mul(u64::from(self.pes_per_proc));
                vec![format!("{each} and {} of {free}memory for each process", MemorySize(of_each))]
            }
        };
        parts.extend(Self { mem_per_pe_bytes: 0, ..self }.memory(0, free));
        parts.extend(self.other());
        let most = self.procs_per_node.map(|most| plural(most, "", "process"));
        parts.extend(most.map(|most| format!("no more than {most} each")));
        list(&parts)
    }

    fn memory(self, pes: u64, free: &str) -> Option<String> {
        let of_pes = self.mem_per_pe_bytes.saturating_mul(pes);
        match self.mem_per_node {
            NodeMemory::Unstated if of_pes == 0 => None,
            NodeMemory::Unstated => Some(format!("{} of {free}memory", MemorySize(of_pes))),
            NodeMemory::Bytes(bytes) => {
                let all = MemorySize(bytes.saturating_add(of_pes));
                Some(format!("{all} of {free}memory"))
            }
            NodeMemory::Whole => Some("all of its memory".to_owned()),
        }
    }

    fn other(self) -> impl Iterator<Item = String> {
        let alone = self.exclusive.then(|| "no other job".to_owned());
        let features = self.features.then(|| "the features asked for".to_owned());
        let names = self.names.then(|| "a name that the job allows".to_owned());
        alone.into_iter().chain(features).chain(names)
    }
}

/// "a, b and c".
pub(crate) fn list(parts: &[String]) -> String {
    match parts.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// "1 free PE", "2 processes".
pub(crate) fn plural(number: u32, before: &str, thing: &'static str) -> String {
    format!("{number} {before}{}", Things(number, thing))
}

/// A number with the matching form of its noun.
struct Things(u32, &'static str);

impl fmt::Display for Things {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, thing) = self;
        let ending = match (number, thing.ends_with('s')) {
            (1, _) => "",
            (_, false) => "s",
            (_, true) => "es",
        };
        write!(f, "{thing}{ending}")
    }
}
