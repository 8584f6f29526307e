//! The cost of a launch, a strobe and a COMPARE-AND-WRITE on a machine.
//!
//! The fan-out of a tree is given, or all are tried and the one with the shortest launch is chosen.

mod launch;
mod multicast;
mod question;
mod shared_host;
mod strobe;
mod tree;

pub use launch::{Launch, Part};
pub use question::Question;
pub use strobe::{QuantumCost, Strobe};

use crate::{FanOut, InputError, Network, NodeCount, Profile, tree_depth};
use serde::Serialize;

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The machine.
    pub profile: String,
    /// The number of nodes.
    pub nodes: NodeCount,
    /// Children of each node of the tree, given or chosen; `None` if no tree matters.
    pub fan_out: Option<FanOut>,
    /// Levels of that tree.
    pub depth: Option<u64>,
    /// Bytes of a chunk.
    pub chunk_bytes: f64,
    /// The launch.
    pub launch: Launch,
    /// COMPARE-AND-WRITE over all nodes, in us.
    pub compare_and_write_us: f64,
    /// The strobe and the following switch.
    pub strobe: Strobe,
    /// The cost of a time slice of the length asked for.
    pub quantum: Option<QuantumCost>,
}

/// Answers the question.
///
/// # Errors
/// The profile or the question is invalid, or strobe and switch do not fit in the time slice.
pub fn predict(profile: &Profile, question: &Question) -> Result<Prediction, InputError> {
    profile.check()?;
    question.check(profile)?;
    let nodes = question.nodes;
    let fan_out = match &profile.network {
        Network::Tree(_) => {
            Some(question.fan_out.unwrap_or_else(|| fastest_fan_out(profile, question)))
        }
        Network::Multicast(_) | Network::SharedHost(_) => None,
    };
    let strobe = strobe_on(profile, nodes, fan_out);
    let cost = |quantum_us| strobe.cost_of(profile, quantum_us);
    Ok(Prediction {
        profile: profile.name.clone(),
        nodes,
        fan_out,
        depth: fan_out.map(|fan_out| tree_depth(nodes, fan_out)),
        chunk_bytes: question.chunk_bytes_on(profile),
        launch: launch_on(profile, question, fan_out),
        compare_and_write_us: conditional_us(profile, nodes, fan_out),
        strobe,
        quantum: question.quantum_us.map(cost).transpose()?,
    })
}

/// The fan-out with the shortest launch; the smallest such fan-out if several are equal.
fn fastest_fan_out(profile: &Profile, question: &Question) -> FanOut {
    let total_ms = |fan_out: &FanOut| launch_on(profile, question, Some(*fan_out)).total_ms;
    let best =
        FanOut::candidates(question.nodes).min_by(|a, b| total_ms(a).total_cmp(&total_ms(b)));
    best.unwrap_or(FanOut::ONE)
}

/// The launch with this tree, on a checked profile.
pub(crate) fn launch_on(profile: &Profile, question: &Question, fan_out: Option<FanOut>) -> Launch {
    match &profile.network {
        Network::Multicast(network) => multicast::launch(profile, network, question),
        Network::Tree(network) => {
            tree::launch(profile, network, question, fan_out.unwrap_or(FanOut::ONE))
        }
        Network::SharedHost(network) => shared_host::launch(network, question),
    }
}

/// The strobe with this tree, on a checked profile.
pub(crate) fn strobe_on(profile: &Profile, nodes: NodeCount, fan_out: Option<FanOut>) -> Strobe {
    let (first_us, last_us) = match &profile.network {
        Network::Multicast(network) => {
            (network.one_way_us(NodeCount::ONE), network.one_way_us(nodes))
        }
        Network::Tree(network) => {
            (network.hop_us(), network.sweep_us(nodes, fan_out.unwrap_or(FanOut::ONE)))
        }
        Network::SharedHost(network) => (network.sweep_us(NodeCount::ONE), network.sweep_us(nodes)),
    };
    Strobe {
        strobe_us: last_us,
        skew_us: last_us - first_us,
        switch_us: profile.host.switch_us.value,
    }
}

fn conditional_us(profile: &Profile, nodes: NodeCount, fan_out: Option<FanOut>) -> f64 {
    match &profile.network {
        Network::Multicast(network) => network.conditional_us(nodes),
        Network::Tree(network) => network.conditional_us(nodes, fan_out.unwrap_or(FanOut::ONE)),
        Network::SharedHost(network) => 2.0 * network.sweep_us(nodes),
    }
}
