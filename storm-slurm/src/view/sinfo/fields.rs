//! The fields of sinfo(1), by the letter of `-o` and the name of `-O`.

use super::SinfoLine;
use crate::host_list::fold_sorted;
use crate::view::field::{both, named};
use crate::view::{Field, NodeFacts, PartitionFacts, time_text};

/// Every field.
pub const SINFO_FIELDS: &[Field<SinfoLine>] = &[
    both('a', "available", "AVAIL", |line, _| {
        if line.partition.up { "up" } else { "down" }.to_owned()
    }),
    both('A', "nodeai", "NODES(A/I)", |line, _| {
        let count = Count::of_nodes(line);
        format!("{}/{}", count.allocated, count.idle)
    }),
    both('b', "features_act", "ACTIVE_FEATURES", |line, _| features(line)),
    both('B', "maxcpuspernode", "MAX_CPUS_PER_NODE", |_, _| "UNLIMITED".to_owned()),
    both('c', "cpus", "CPUS", |line, _| at_least(line, |node| u64::from(node.cpus))),
    both('C', "cpusstate", "CPUS(A/I/O/T)", |line, _| Count::of_cpus(line).text()),
    both('d', "disk", "TMP_DISK", |_, _| "0".to_owned()),
    both('D', "nodes", "NODES", |line, _| line.nodes.len().to_string()),
    both('e', "freemem", "FREE_MEM", |line, _| {
        range(line, |node| node.free_mib, |mib| mib.to_string())
    }),
    both('E', "reason", "REASON", |line, _| {
        first(line, |node| node.reason.clone()).unwrap_or_else(|| "none".to_owned())
    }),
    both('f', "features", "AVAIL_FEATURES", |line, _| features(line)),
    both('F', "nodeaiot", "NODES(A/I/O/T)", |line, _| Count::of_nodes(line).text()),
    both('g', "groups", "GROUPS", |line, _| PartitionFacts::all_or(&line.partition.groups, "all")),
    both('G', "gres", "GRES", |line, _| {
        first(line, |node| node.gres.clone()).unwrap_or_else(|| "(null)".to_owned())
    }),
    both('h', "oversubscribe", "OVERSUBSCRIBE", |line, _| line.partition.oversubscribe()),
    both('H', "timestamp", "TIMESTAMP", |line, show| {
        let at = first(line, |node| node.reason_by.as_ref().map(|(.., at)| *at));
        at.map_or_else(|| "Unknown".to_owned(), |at| show.time(at))
    }),
    both('I', "priorityjobfactor", "PRIO_JOB_FACTOR", |_, _| "1".to_owned()),
    both('l', "time", "TIMELIMIT", |line, _| {
        line.partition.max_time_s.map_or_else(|| "infinite".to_owned(), time_text::short)
    }),
    both('L', "defaulttime", "DEFAULTTIME", |line, _| {
        line.partition.default_time_s.map_or_else(|| "n/a".to_owned(), time_text::short)
    }),
    both('m', "memory", "MEMORY", |line, _| at_least(line, |node| node.memory_mib.unwrap_or(0))),
    both('M', "preemptmode", "PREEMPT_MODE", |line, _| line.partition.preempt_mode().to_owned()),
    both('n', "nodehost", "HOSTNAMES", |line, _| {
        let host = |node: &NodeFacts| Some(node.hostname.clone().unwrap_or(node.name.clone()));
        first(line, host).unwrap_or_default()
    }),
    both('N', "nodelist", "NODELIST", |line, _| {
        let names: Vec<String> = line.nodes.iter().map(|node| node.name.clone()).collect();
        fold_sorted(&names)
    }),
    both('o', "nodeaddr", "NODE_ADDR", |line, _| {
        let address = |node: &NodeFacts| Some(node.address.clone().unwrap_or(node.name.clone()));
        first(line, address).unwrap_or_default()
    }),
    both('O', "cpusload", "CPU_LOAD", |line, _| {
        let load = |node: &NodeFacts| node.load_percent.map(u64::from);
        range(line, load, |load| format!("{}.{:02}", load / 100, load % 100))
    }),
    both('p', "prioritytier", "PRIO_TIER", |_, _| "1".to_owned()),
    both('P', "partition", "PARTITION", |line, _| {
        let star = if line.partition.default { "*" } else { "" };
        format!("{}{star}", line.partition.name)
    }),
    both('r', "root", "ROOT", |_, _| "no".to_owned()),
    both('R', "partitionname", "PARTITION", |line, _| line.partition.name.clone()),
    both('s', "size", "JOB_SIZE", |line, _| {
        let (least, most) = line.partition.job_nodes;
        let most = most.map_or_else(|| "infinite".to_owned(), |most| most.to_string());
        format!("{}-{most}", least.max(1))
    }),
    both('S', "allocnodes", "ALLOCNODES", |_, _| "all".to_owned()),
    both('t', "statecompact", "STATE", |line, _| state(line, NodeFacts::state_compact)),
    both('T', "statelong", "STATE", |line, _| state(line, NodeFacts::state_long)),
    both('u', "user", "USER", |line, _| {
        let user = |node: &NodeFacts| node.reason_by.as_ref().map(|(user, ..)| user.clone());
        first(line, user).unwrap_or_else(|| "Unknown".to_owned())
    }),
    both('U', "userlong", "USER", |line, _| {
        let by = first(line, |node| node.reason_by.clone());
        by.map_or_else(|| "Unknown".to_owned(), |(user, uid, _)| format!("{user}({uid})"))
    }),
    both('v', "version", "VERSION", |line, _| {
        first(line, |node| node.version.clone()).unwrap_or_else(|| "N/A".to_owned())
    }),
    both('V', "cluster", "CLUSTER", |_, _| "N/A".to_owned()),
    both('w', "weight", "WEIGHT", |_, _| "1".to_owned()),
    both('X', "sockets", "SOCKETS", |line, _| at_least(line, |node| u64::from(node.cpus))),
    both('Y', "cores", "CORES", |_, _| "1".to_owned()),
    both('z', "socketcorethread", "S:C:T", |line, _| {
        format!("{}:1:1", at_least(line, |node| u64::from(node.cpus)))
    }),
    both('Z', "threads", "THREADS", |_, _| "1".to_owned()),
    named("allocmem", "ALLOCMEM", |line, _| at_least(line, |node| node.memory_held_mib)),
    named("comment", "COMMENT", |_, _| "(null)".to_owned()),
    named("extra", "EXTRA", |_, _| "(null)".to_owned()),
    named("gresused", "GRES_USED", |_, _| "(null)".to_owned()),
    named("port", "PORT", |_, _| "0".to_owned()),
    named("share", "OVERSUBSCRIBE", |line, _| line.partition.oversubscribe()),
    named("statecomplete", "STATECOMPLETE", |line, _| state(line, NodeFacts::state_complete)),
];

fn first<T>(line: &SinfoLine, fact: impl Fn(&NodeFacts) -> Option<T>) -> Option<T> {
    line.nodes.first().and_then(|node| fact(node))
}

fn features(line: &SinfoLine) -> String {
    let features = |node: &NodeFacts| (!node.features.is_empty()).then(|| node.features.join(","));
    first(line, features).unwrap_or_else(|| "(null)".to_owned())
}

fn state(line: &SinfoLine, text: impl Fn(&NodeFacts) -> String) -> String {
    first(line, |node| Some(text(node))).unwrap_or_else(|| "n/a".to_owned())
}

/// The least value, with a plus if some node has more.
fn at_least(line: &SinfoLine, fact: impl Fn(&NodeFacts) -> u64) -> String {
    let values = || line.nodes.iter().map(|node| fact(node));
    let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    if least == most { least.to_string() } else { format!("{least}+") }
}

/// The least and the most value.
fn range(
    line: &SinfoLine,
    fact: impl Fn(&NodeFacts) -> Option<u64>,
    text: impl Fn(u64) -> String,
) -> String {
    let values = || line.nodes.iter().filter_map(|node| fact(node));
    match (values().min(), values().max()) {
        (Some(least), Some(most)) if least == most => text(least),
        (Some(least), Some(most)) => format!("{}-{}", text(least), text(most)),
        _ => "N/A".to_owned(),
    }
}

/// How many are allocated, idle, out of use, and there are.
struct Count {
    allocated: u64,
    idle: u64,
    other: u64,
}

impl Count {
    /// Nodes. One with tasks is allocated, also while it drains.
    fn of_nodes(line: &SinfoLine) -> Count {
        let mut count = Count { allocated: 0, idle: 0, other: 0 };
        for node in &line.nodes {
            match (node.is_at_work(), node.is_usable()) {
                (true, _) => count.allocated += 1,
                (false, true) => count.idle += 1,
                (false, false) => count.other += 1,
            }
        }
        count
    }

    /// Processing elements. Those without tasks on a node that takes none are out of use.
    fn of_cpus(line: &SinfoLine) -> Count {
        let mut count = Count { allocated: 0, idle: 0, other: 0 };
        for node in &line.nodes {
            let used = u64::from(node.cpus_used.min(node.cpus));
            let free = u64::from(node.cpus) - used;
            count.allocated += used;
            match node.is_usable() {
                true => count.idle += free,
                false => count.other += free,
            }
        }
        count
    }

    fn text(&self) -> String {
        let Count { allocated, idle, other } = self;
        format!("{allocated}/{idle}/{other}/{}", allocated + idle + other)
    }
}
