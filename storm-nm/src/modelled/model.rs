//! The properties of a modelled node.

use super::{Activity, Exchange, HostAct, NoExchange, RankContext, Script};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use storm_rm::message::NodeReturn;

/// How the operating system of a node shares a processor among several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatingSystem {
    /// How long a process runs before another has its turn.
    pub slice: Duration,
    /// The time to wake a sleeping process.
    pub wake: Duration,
    /// Time between boosts of processes that wait for a message that has arrived, if they are
    /// boosted.
    pub boost_period: Duration,
}

impl Default for OperatingSystem {
    /// Linux: its base slice (`/sys/kernel/debug/sched/base_slice_ns` on a node of several
    /// processors) is about 3 ms, and waking a sleeping process takes 6 us
    /// (`docs/decisions/0081-looking-in-vain.md`).
    fn default() -> OperatingSystem {
        OperatingSystem {
            slice: Duration::from_millis(3),
            wake: Duration::from_micros(6),
            boost_period: crate::DEFAULT_BOOST_PERIOD,
        }
    }
}

/// The properties of a node. The default times are those of an ordinary Linux node with a RAM disk,
/// from the benchmarks of this repository.
#[derive(Clone)]
pub struct Model {
    /// Host name.
    pub hostname: String,
    /// Address by which ranks of other nodes reach it.
    pub address: String,
    /// Number of processing elements.
    pub pes: u32,
    /// Number of processors. If there are no more processors than elements, a rank shares a
    /// processor with the daemon.
    pub processors: u32,
    /// The operating system that shares them if several jobs run at once.
    pub os: OperatingSystem,
    /// The only user as whom jobs can run; `None` if jobs can run as any user.
    pub only_uid: Option<u32>,
    /// For how long jobs continue without a node manager; jobs end with the node manager if `None`.
    pub returns: Option<NodeReturn>,
    /// Time to make a job's directory.
    pub prepare_time: Duration,
    /// Time from the order to start a rank to its first instruction.
    pub exec_time: Duration,
    /// Time to write and check one byte of a file.
    pub write_time_per_byte: Duration,
    /// Size of the file cache in bytes.
    pub cache_bytes: u64,
    /// Whether to check the content of files, as a real node does. A large machine may skip it, as
    /// the simulated network corrupts nothing.
    pub check_content: bool,
    /// The script of each process.
    pub program: Rc<dyn Fn(&RankContext<'_>) -> Script>,
    /// The time of activities beyond the fixed times: noise, load, contention.
    pub extra: Rc<dyn Fn(Activity) -> Duration>,
    /// The network between the processes.
    pub exchange: Rc<dyn Exchange>,
    /// Gets all acts, for the trace of a simulation.
    pub observer: Rc<dyn Fn(&HostAct)>,
}

impl Default for Model {
    /// A node of 4 processing elements and a processor for the daemon, whose processes exit at
    /// once.
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
