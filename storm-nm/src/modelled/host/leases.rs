//! The modelled keeper, which ends jobs whose leases run out.

use super::{ModelledHost, SIGKILL};
use crate::modelled::HostAct;
use crate::{HostEvent, JobKey};
use std::time::Duration;
use storm_primitives::Runtime;

/// The host's time as a duration. The host is never suspended.
pub(super) fn time(runtime: &impl Runtime) -> Duration {
    Duration::from_nanos(runtime.now().as_nanos())
}

impl<R: Runtime> ModelledHost<R> {
    /// Ends the job when its lease runs out, unless the job is over before.
    pub(super) fn watch_lease(&self, key: JobKey) {
        let (this, keeper) = (self.clone(), self.inner.keeper.borrow().clone());
        self.inner.tasks.spawn(&keeper.clone(), async move {
            loop {
                let Some(until) = this.inner.leases.borrow().until(key) else { return };
                let left = until.saturating_sub(time(&keeper));
                if left.is_zero() {
                    return this.end_lease(key);
                }
                keeper.sleep(left).await;
            }
        });
    }

    fn end_lease(&self, key: JobKey) {
        let Some(job) = self.job(key) else { return };
        self.observe(HostAct::LeaseOver(key));
        job.ledger.iter().for_each(|ledger| ledger.lease_over.set(true));
        self.inner.events.push(HostEvent::LeaseOver { job: key });
        self.signal_all(key, SIGKILL);
        // The node manager gets the events of the ends when it continues.
        job.processes.borrow().values().for_each(|process| process.ended.set(true));
        self.close_outputs(key);
    }
}
