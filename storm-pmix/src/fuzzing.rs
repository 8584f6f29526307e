//! Entry points for `fuzz/` into private decoders of this crate, for data from ranks, peers, users
//! and submitted programs. Only cargo-fuzz compiles them.

use crate::client_environment::parameters;
use crate::detect::linkage;
use crate::exchange::{Exchange, ExchangeError, Portion};
use crate::handover::understood;
use crate::needs::needs;
use crate::placement::Placement;

/// Limit of rounds of an exchange.
const ROUNDS_MAX: usize = 64;

/// Reads a submitted program.
pub fn program(bytes: &[u8]) -> crate::Linkage {
    needs(bytes).map(|needs| linkage(&needs)).unwrap_or_default()
}

/// Reads a server's answer to a rank, and returns the number of its variables.
///
/// # Panics
/// A variable could not be set.
pub fn answer(bytes: &[u8]) -> usize {
    let Some(Ok(environment)) = understood(bytes) else { return 0 };
    for (name, value) in &environment {
        let (name, value) = (name.as_encoded_bytes(), value.as_encoded_bytes());
        assert!(!name.is_empty() && !name.contains(&b'=') && !name.contains(&0));
        assert!(!value.contains(&0));
    }
    environment.len()
}

/// Reads a user's file of parameters.
///
/// # Panics
/// A result is not the name of a variable.
pub fn users_file(bytes: &[u8]) {
    for name in parameters(bytes) {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
    }
}

/// Computes the places of a job's ranks.
///
/// # Panics
/// A rank has no place, or two.
pub fn placement(mapping: &str, size: u32, rank: u32) {
    let Ok(placed) = Placement::new(mapping, size, rank) else { return };
    assert!(placed.local().contains(&rank) && placed.own() < placed.nodes());
    let ranks = placed.ranks_of_nodes();
    let count = ranks.split([',', ';']).filter(|rank| !rank.is_empty()).count();
    assert_eq!(count, size as usize);
}

/// A peer's put: nothing, anything, or anything behind the right header.
#[derive(Clone, Debug)]
pub enum PeerValue {
    /// No value.
    Nothing,
    /// The value itself.
    Raw(String),
    /// The value behind the right head.
    Headed(String),
}

/// Runs an exchange of a node with `nodes` others. Their puts are the values of `said`, in order.
///
/// # Panics
/// The node's own blob does not come back unchanged.
pub fn exchange(nodes: u8, own: u8, heartbeat_bytes: u16, blob: &[u8], said: &[PeerValue]) {
    let nodes = usize::from(nodes).max(1);
    let own = usize::from(own) % nodes;
    let portion = Portion::of(nodes, usize::from(heartbeat_bytes));
    let mut exchange = Exchange::new(1, portion, (own, nodes), blob);
    let mut said = said.iter();
    let mut space = std::collections::HashMap::new();
    for _ in 0..ROUNDS_MAX {
        space.extend(exchange.puts());
        let head = exchange.head();
        let taken = exchange.take(|key| {
            Ok::<_, ExchangeError>(match space.get(key) {
                Some(own) => Some(own.clone()),
                None => match said.next() {
                    None | Some(PeerValue::Nothing) => None,
                    Some(PeerValue::Raw(text)) => Some(text.clone()),
                    Some(PeerValue::Headed(text)) => Some(format!("{head}{text}")),
                },
            })
        });
        match taken {
            Ok(None) => {}
            Ok(Some(all)) => {
                assert!(blob.is_empty() || all.windows(blob.len()).any(|part| part == blob));
                return;
            }
            Err(ExchangeError::Missing { node }) => {
                assert_ne!(node, own);
                return;
            }
            Err(ExchangeError::TooMuch) => return,
        }
    }
}
