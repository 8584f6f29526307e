//! The properties of a modelled node.

use super::{Activity, Exchange, HostAct, NoExchange, RankContext, Script};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use storm_rm::message::NodeReturn;

/// How the operating system of a node shares out a processor among several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatingSystem {
    /// How long one runs before it is another's turn.
    pub slice: Duration,
    /// Waking a process that sleeps.
    pub wake: Duration,
    /// How often the node manager boosts those who wait for what has come, where it does.
    pub boost_period: Duration,
}

impl Default for OperatingSystem {
    /// Linux: its base slice (`/sys/kernel/debug/sched/base_slice_ns` on a node of several
    /// processors) of about 3 ms, and the 6 us that waking a sleeper takes there
    /// (`docs/decisions/0081-looking-in-vain.md`).
    fn default() -> OperatingSystem {
        OperatingSystem {
            slice: Duration::from_millis(3),
            wake: Duration::from_micros(6),
            boost_period: Duration::from_millis(10),
        }
    }
}

/// What a node is like. Times are those of an ordinary Linux node with a RAM
/// disk; the sources are the measurements in the benchmarks of this repository.
#[derive(Clone)]
pub struct Model {
    /// Host name.
    pub hostname: String,
    /// Address that ranks of other nodes reach it by.
    pub address: String,
    /// Processing elements.
    pub pes: u32,
    /// Processors: one more than the elements, or ranks share one with the daemon.
    pub processors: u32,
    /// What shares them out where several jobs run at once.
    pub os: OperatingSystem,
    /// The only user that jobs can run as.
    pub only_uid: Option<u32>,
    /// For how long jobs go on without a node manager; they end with it if `None`.
    pub returns: Option<NodeReturn>,
    /// Making a job's directory.
    pub prepare_time: Duration,
    /// From the order to start a rank to its first instruction.
    pub exec_time: Duration,
    /// Writing one byte of a file, checking it included.
    pub write_time_per_byte: Duration,
    /// Room for the file cache in bytes.
    pub cache_bytes: u64,
    /// Check the content of files, as a real node does. A large machine may
    /// leave it out: the simulated network corrupts nothing.
    pub check_content: bool,
    /// What each process does.
    pub program: Rc<dyn Fn(&RankContext<'_>) -> Script>,
    /// What activities take beyond the fixed times: noise, load, contention.
    pub extra: Rc<dyn Fn(Activity) -> Duration>,
    /// The network between the processes.
    pub exchange: Rc<dyn Exchange>,
    /// Told what happens: the trace of a simulation.
    pub observer: Rc<dyn Fn(&HostAct)>,
}

impl Default for Model {
    /// A node of 4 PEs and a processor for the daemon, whose processes exit at once.
    fn default() -> Model {
        Model {
            hostname: "modelled".to_owned(),
            address: "127.0.0.1".to_owned(),
            pes: 4,
            processors: 5,
            os: OperatingSystem::default(),
            only_uid: None,
            returns: None,
            prepare_time: Duration::from_micros(60),
            exec_time: Duration::from_micros(190),
            write_time_per_byte: Duration::from_nanos(1),
            cache_bytes: 1 << 30,
            check_content: true,
            program: Rc::new(|_| Script::of(Vec::new())),
            extra: Rc::new(|_| Duration::ZERO),
            exchange: Rc::new(NoExchange),
            observer: Rc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}
