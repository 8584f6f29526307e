//! The common part of all middleware: a layer passes everything that it does not change
//! to the handle inside.

use crate::{
    AwaitEvent, CompareAndWrite, EventId, EventTable, GlobalMemory, Membership, NodeId,
    PrimitiveError, Primitives, Signal, Xfer,
};
use std::future::Future;

/// Primitives that wrap the handle of the same node and change some of its behaviour.
///
/// A layer defines only the differences, and is then a [`Primitives`]. Each method replaces the
/// wrapped method that it names, under the same contract.
pub trait Layer: Clone + 'static {
    /// The handle inside.
    type Inner: Primitives;

    /// The handle inside.
    fn inner(&self) -> &Self::Inner;

    /// For [`Primitives::membership`].
    fn view(&self) -> &Membership {
        self.inner().membership()
    }

    /// For [`Primitives::xfer_and_signal`].
    fn on_xfer(&self, xfer: Xfer) {
        self.inner().xfer_and_signal(xfer);
    }

    /// For [`Primitives::compare_and_write`].
    ///
    /// # Errors
    /// As for [`Primitives::compare_and_write`].
    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        self.inner().compare_and_write(caw)
    }

    /// The answer of [`Primitives::precedes_own_stores`]. A layer that passes on operations at once
    /// may pass on the inner handle's answer. Other layers must answer false.
    fn on_precedes(&self) -> bool {
        false
    }

    /// For [`Primitives::test_event`].
    fn on_test(&self, event: EventId) -> Option<Signal> {
        self.inner().test_event(event)
    }

    /// For [`Primitives::await_event`].
    fn on_await(&self, event: EventId) -> AwaitEvent {
        self.inner().await_event(event)
    }
}

impl<L: Layer> Primitives for L {
    type Runtime = <L::Inner as Primitives>::Runtime;

    fn runtime(&self) -> &Self::Runtime {
        self.inner().runtime()
    }

    fn node(&self) -> NodeId {
        self.inner().node()
    }

    fn memory(&self) -> &GlobalMemory {
        self.inner().memory()
    }

    fn events(&self) -> &EventTable {
        self.inner().events()
    }

    fn membership(&self) -> &Membership {
        self.view()
    }

    fn xfer_and_signal(&self, xfer: Xfer) {
        self.on_xfer(xfer);
    }

    fn compare_and_write(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        self.on_compare(caw)
    }

    fn precedes_own_stores(&self) -> bool {
        self.on_precedes()
    }

    fn test_event(&self, event: EventId) -> Option<Signal> {
        self.on_test(event)
    }

    fn await_event(&self, event: EventId) -> AwaitEvent {
        self.on_await(event)
    }
}
