//! Parts of the sentences that say why a request can never run.

use crate::node_needs::list;

/// The hint when nodes are too small.
pub(super) struct MoreNodes(pub(super) Option<u32>);

impl std::fmt::Display for MoreNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(nodes) => write!(f, "ask for {nodes} nodes with -N, or leave -N out"),
            None => write!(f, "leave -N out, or ask for fewer processes with -n"),
        }
    }
}

/// The features asked for: "feature gpu", "the features gpu&big".
pub(super) struct Wanted<'a>(pub(super) &'a str);

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = !self.0.contains(['&', '|']);
        write!(f, "{} {}", if one { "feature" } else { "the features" }, self.0)
    }
}

/// "there are big and gpu".
pub(super) struct There<'a>(pub(super) &'a [String]);

impl std::fmt::Display for There<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => f.write_str("its nodes have no features"),
            [one] => write!(f, "there is {one}"),
            many => write!(f, "there are {}", list(many)),
        }
    }
}

/// " with feature gpu", where a constraint is given.
pub(super) struct With<'a>(pub(super) &'a Option<String>);

impl std::fmt::Display for With<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |constraint| write!(f, " with {}", Wanted(constraint)))
    }
}

/// "has 2 PEs", "have 2 PEs".
pub(super) struct Having(pub(super) u32, pub(super) String);

impl std::fmt::Display for Having {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", if self.0 == 1 { "has" } else { "have" }, self.1)
    }
}

/// The option that asks for memory.
pub(super) struct MemoryOption(pub(super) Option<u32>);

impl std::fmt::Display for MemoryOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("--mem"),
            Some(1) => f.write_str("--mem-per-cpu"),
            Some(pes) => write!(f, "--mem-per-cpu for {pes} PEs of a process,"),
        }
    }
}
