//! A process's share of a processor, and how it waits there for messages: what the policies
//! without strobes differ in (A6 of the policy reference).

use super::processor::{Processor, Tenant};
use futures_util::future::LocalBoxFuture;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::Runtime;

/// Longer than any simulation.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// A process on a processor that it shares.
#[derive(Debug)]
pub(super) struct Share {
    processor: Rc<Processor>,
    tenant: Tenant,
}

impl Share {
    pub(super) fn new(processor: Rc<Processor>, tick: Duration) -> Share {
        let tenant = processor.enter(tick);
        Share { processor, tenant }
    }

    /// Uses so much processor time; what it used.
    pub(super) async fn compute<R: Runtime>(&self, runtime: &R, work: Duration) -> Duration {
        let never = pin!(std::future::pending());
        self.processor.run(runtime, self.tenant, work, never).await.0
    }

    /// Waits for news, looking for it all the time; the processor time that it used meanwhile.
    pub(super) async fn await_news<R: Runtime>(
        &self,
        runtime: &R,
        mut news: LocalBoxFuture<'static, ()>,
    ) -> Duration {
        self.processor.run(runtime, self.tenant, FOR_EVER, Pin::new(&mut news)).await.0
    }

    /// It waits for something without looking for it.
    pub(super) fn sleep(&self) {
        self.processor.sleep(self.tenant);
    }

    /// It has come.
    pub(super) fn wake(&self) {
        self.processor.wake(self.tenant);
    }

    /// Its job is stopped, or goes on.
    pub(super) fn hold(&self, held: bool) {
        self.processor.hold(self.tenant, held);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.processor.leave(self.tenant);
    }
}
