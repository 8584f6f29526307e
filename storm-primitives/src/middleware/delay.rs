//! Delays every operation, as a slower or less even network does.
//!
//! Only the operations of the issuing node are delayed, and their order is kept. Reordering would
//! break the contract: the conformance suite tests against it with mutants.

use super::Layer;
use super::lane::Lane;
use crate::{CompareAndWrite, PrimitiveError, Primitives, Xfer};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// The range from which a delay is drawn, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRange {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

/// The primitives of one node, each operation later by a random time.
#[derive(Clone)]
pub struct Delay<P> {
    lane: Lane<P>,
    range: DelayRange,
    random: Rc<RefCell<ChaCha12Rng>>,
}

impl<P: Primitives> Delay<P> {
    /// Delays the operations of `inner` by times out of `range`, the same for
    /// the same seed and node.
    pub fn new(inner: P, range: DelayRange, seed: u64) -> Delay<P> {
        let seed = seed ^ u64::from(inner.node().0) << 32;
        let random = Rc::new(RefCell::new(ChaCha12Rng::seed_from_u64(seed)));
        Delay { lane: Lane::new(inner), range, random }
    }

    fn draw(&self) -> Duration {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (min, max) = (nanos(self.range.min), nanos(self.range.max));
        Duration::from_nanos(self.random.borrow_mut().random_range(min..=max.max(min)))
    }
}

impl<P: Primitives> Layer for Delay<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        self.lane.inner()
    }

    fn on_xfer(&self, xfer: Xfer) {
        self.lane.put(xfer, self.draw());
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        async move {
            let delay = this.draw();
            this.lane.ask(caw, delay).await
        }
    }
}

impl<P> std::fmt::Debug for Delay<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delay").field("range", &self.range).finish_non_exhaustive()
    }
}
