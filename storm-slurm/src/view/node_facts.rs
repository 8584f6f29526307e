//! A node as the listing commands see it.

use jiff::Timestamp;

/// Facts about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// The address that others reach it by.
    pub address: Option<String>,
    /// Its host name.
    pub hostname: Option<String>,
    /// The partitions that it belongs to.
    pub partitions: Vec<String>,
    /// Its base state.
    pub base: NodeBase,
    /// Whether it takes no further jobs.
    pub drained: bool,
    /// Whether it is kept for a reservation.
    pub reserved: bool,
    /// Whether it answers.
    pub responds: bool,
    /// Why it is in this state.
    pub reason: Option<String>,
    /// The user that gave the reason, and when.
    pub reason_by: Option<(String, u32, Timestamp)>,
    /// Its processing elements.
    pub cpus: u32,
    /// Processing elements that jobs have.
    pub cpus_used: u32,
    /// Memory that jobs may have, in MiB.
    pub memory_mib: Option<u64>,
    /// Memory that jobs hold, in MiB.
    pub memory_held_mib: u64,
    /// Memory that is available, in MiB.
    pub free_mib: Option<u64>,
    /// The one-minute load average times 100.
    pub load_percent: Option<u32>,
    /// Its features.
    pub features: Vec<String>,
    /// Its generic resources.
    pub gres: Option<String>,
    /// The version of its daemon.
    pub version: Option<String>,
}

/// The activity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeBase {
    /// It has not joined yet.
    Unknown,
    /// It was up, and is not any more.
    Down,
    /// It runs nothing.
    Idle,
    /// All its processing elements have tasks.
    Allocated,
    /// Some of its processing elements have tasks.
    Mixed,
}

impl NodeFacts {
    /// A node that is idle, and of which nothing else is known.
    pub fn named(name: &str) -> NodeFacts {
        NodeFacts {
            name: name.to_owned(),
            address: None,
            hostname: None,
            partitions: Vec::new(),
            base: NodeBase::Idle,
            drained: false,
            reserved: false,
            responds: true,
            reason: None,
            reason_by: None,
            cpus: 0,
            cpus_used: 0,
            memory_mib: None,
            memory_held_mib: 0,
            free_mib: None,
            load_percent: None,
            features: Vec::new(),
            gres: None,
            version: None,
        }
    }

    /// The short state: `idle`, `mix`, `drng`; a star follows if the node does not answer.
    pub fn state_compact(&self) -> String {
        let base = match self.base {
            NodeBase::Unknown => "unk",
            NodeBase::Down => "down",
            NodeBase::Idle => "idle",
            NodeBase::Allocated => "alloc",
            NodeBase::Mixed => "mix",
        };
        self.with_flags(base, "drng", "drain", "resv")
    }

    /// The long state: `idle`, `mixed`, `draining`; a star follows if the node does not answer.
    pub fn state_long(&self) -> String {
        self.with_flags(self.base_name(), "draining", "drained", "reserved")
    }

    /// The base state and what applies besides: `idle+drain`.
    pub fn state_complete(&self) -> String {
        let flags = [
            (self.drained, "+drain"),
            (self.reserved, "+reserved"),
            (!self.responds, "+not_responding"),
        ];
        let flags = flags.iter().filter(|(applies, _)| *applies).map(|(_, flag)| *flag);
        std::iter::once(self.base_name()).chain(flags).collect()
    }

    /// The base state and what applies besides, each by its name: `IDLE`, `DRAIN`.
    pub fn states(&self) -> Vec<String> {
        let complete = self.state_complete();
        complete.split('+').map(str::to_ascii_uppercase).collect()
    }

    /// Slurm's number of the state, by which listings are sorted.
    pub fn state_number(&self) -> u32 {
        const RESERVED: u32 = 0x20;
        const DRAIN: u32 = 0x200;
        const NO_RESPOND: u32 = 0x800;
        let base = match self.base {
            NodeBase::Unknown => 0,
            NodeBase::Down => 1,
            NodeBase::Idle => 2,
            NodeBase::Allocated => 3,
            NodeBase::Mixed => 5,
        };
        let flag = |applies, flag| if applies { flag } else { 0 };
        base + flag(self.reserved, RESERVED)
            + flag(self.drained, DRAIN)
            + flag(!self.responds, NO_RESPOND)
    }

    /// Whether it has tasks.
    pub fn is_at_work(&self) -> bool {
        matches!(self.base, NodeBase::Allocated | NodeBase::Mixed)
    }

    /// Whether it takes jobs.
    pub fn is_usable(&self) -> bool {
        !self.drained && self.responds && !matches!(self.base, NodeBase::Unknown | NodeBase::Down)
    }

    /// Whether it is in a state of this name; `None` if Slurm has no such state. All states that
    /// are joined by `&` must hold.
    pub fn is_in(&self, states: &str) -> Option<bool> {
        let all = states.split('&').map(|state| self.is_in_one(state));
        all.collect::<Option<Vec<bool>>>().map(|all| all.into_iter().all(|holds| holds))
    }

    fn is_in_one(&self, state: &str) -> Option<bool> {
        let state = state.to_lowercase();
        Some(match state.as_str() {
            "all" => true,
            "unk" | "unknown" => self.base == NodeBase::Unknown,
            "down" => self.base == NodeBase::Down,
            "idle" => self.base == NodeBase::Idle,
            "alloc" | "allocated" => self.base == NodeBase::Allocated,
            "mix" | "mixed" => self.base == NodeBase::Mixed,
            "drain" => self.drained,
            "drng" | "draining" => self.drained && self.is_at_work(),
            "drained" => self.drained && !self.is_at_work(),
            "resv" | "reserved" => self.reserved,
            "no_respond" => !self.responds,
            // A node here is never in these.
            "future" | "futr" | "perfctrs" | "npc" | "cloud" | "comp" | "completing" | "fail"
            | "failing" | "maint" | "reboot" | "reboot^" | "planned" | "plnd" | "inval" | "err"
            | "error" | "power_down" | "pow_dn" | "powering_down" | "powered_down"
            | "powering_up" | "pow_up" | "blocked" => false,
            _ => return None,
        })
    }

    /// Whether Slurm has a state of this name. Several names may be joined by `&`.
    pub fn knows_state(state: &str) -> bool {
        NodeFacts::named("").is_in(state).is_some()
    }

    /// The states that may be asked for, for messages.
    pub const STATES: &str = "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,\
        no_respond,reserved,perfctrs,cloud,completing,powering_down,powered_down,power_down,\
        powering_up,fail,maint,reboot,reboot^,unknown";

    fn base_name(&self) -> &'static str {
        match self.base {
            NodeBase::Unknown => "unknown",
            NodeBase::Down => "down",
            NodeBase::Idle => "idle",
            NodeBase::Allocated => "allocated",
            NodeBase::Mixed => "mixed",
        }
    }

    fn with_flags(&self, base: &str, draining: &str, drained: &str, reserved: &str) -> String {
        let state = match (self.drained, self.is_at_work()) {
            (true, true) => draining,
            (true, false) => drained,
            (false, _) if self.reserved => reserved,
            (false, _) => base,
        };
        let star = if self.responds { "" } else { "*" };
        format!("{state}{star}")
    }
}
