//! Fences of the whole job, one after the other. Each fence takes one or several barriers of PMI.

use super::ServeError;
use super::ranks::Ranks;
use super::upcalls::ModexAnswer;
use crate::abi::ERROR;
use crate::exchange::{Exchange, ExchangeError, Portion};
use std::collections::VecDeque;

/// A fence that all ranks of this node are in.
pub(super) struct Fence {
    /// The data that the ranks give.
    pub(super) blob: Vec<u8>,
    /// The answer owed to libpmix.
    pub(super) done: ModexAnswer,
}

/// Fences under way. All nodes see them in one order.
pub(super) struct Fences {
    portion: Portion,
    place: (usize, usize),
    begun: u64,
    current: Option<(Exchange, ModexAnswer)>,
    later: VecDeque<Fence>,
}

/// The reason why an exchange failed.
enum Failed {
    Pmi(ServeError),
    Exchange(ExchangeError),
}

impl From<ServeError> for Failed {
    fn from(error: ServeError) -> Failed {
        Failed::Pmi(error)
    }
}

impl From<ExchangeError> for Failed {
    fn from(error: ExchangeError) -> Failed {
        Failed::Exchange(error)
    }
}

impl Fences {
    /// No fences yet; `place` is this node's index and the number of nodes.
    pub(super) fn new(portion: Portion, place: (usize, usize)) -> Fences {
        Fences { portion, place, begun: 0, current: None, later: VecDeque::new() }
    }

    /// Begins a fence once the earlier fences are over.
    pub(super) fn begin(&mut self, fence: Fence, ranks: &mut Ranks) -> Result<(), ServeError> {
        self.later.push_back(fence);
        self.next(ranks)
    }

    /// Records that all ranks are out of the barrier.
    pub(super) fn all_are_out(&mut self, ranks: &mut Ranks) -> Result<(), ServeError> {
        let Some((mut exchange, done)) = self.current.take() else { return Ok(()) };
        match exchange.take(|key| ranks.get(key).map_err(Failed::Pmi)) {
            Ok(None) => {
                ranks.enter_barrier(exchange.puts())?;
                self.current = Some((exchange, done));
                Ok(())
            }
            Ok(Some(blobs)) => {
                done.give(Ok(blobs));
                self.next(ranks)
            }
            Err(Failed::Exchange(error)) => {
                eprintln!("storm: PMIx: {error}");
                done.give(Err(ERROR));
                self.next(ranks)
            }
            Err(Failed::Pmi(error)) => Err(error),
        }
    }

    fn next(&mut self, ranks: &mut Ranks) -> Result<(), ServeError> {
        if self.current.is_some() {
            return Ok(());
        }
        let Some(Fence { blob, done }) = self.later.pop_front() else { return Ok(()) };
        self.begun += 1;
        let exchange = Exchange::new(self.begun, self.portion, self.place, &blob);
        ranks.enter_barrier(exchange.puts())?;
        self.current = Some((exchange, done));
        Ok(())
    }
}
