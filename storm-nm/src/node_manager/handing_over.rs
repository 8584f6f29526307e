//! Hands the slices of jobs over to the next node manager of this node, and takes them from the
//! former one ([decision
//! 0153](../../../docs/decisions/0153-slices-stand-while-a-node-manager-is-replaced.md)).

use super::Node;
use super::buffered::{BufferedSlices, NM_GONE, engine_key, member};
use crate::{Flaw, Host, JobKey, JobTask, SlicesLeft};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, Primitives, Runtime};
use storm_rm::Rank;
use storm_rm::message::{HeldJob, Report};
use storm_rm::termination::Urgency;

/// How often to check whether the keeper has been given everything.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The progress of handing over.
#[derive(Default)]
pub(super) struct HandingOver {
    /// The runs that the Machine Manager wants to be handed over, when it has answered.
    told: RefCell<Option<Vec<HeldJob>>>,
    answered: Bell,
    /// The state has been saved: nothing may change it any more.
    is_closed: Cell<bool>,
    /// Runs that continue with the state of the former node manager, until that is reported.
    back: RefCell<Vec<JobKey>>,
}

impl HandingOver {
    /// The Machine Manager has answered.
    pub(super) fn answer(&self, runs: Vec<HeldJob>) {
        self.told.replace(Some(runs));
        self.answered.ring();
    }

    /// Whether the state has been saved.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Hands over when somebody on the host requests the end of this node manager alone. Then the
    /// link may be closed.
    pub(super) async fn hand_over_when_asked(self: &Rc<Self>) {
        self.host.asked_to_leave().await;
        if let Some(buffered) = self.buffered.slices()
            && !buffered.is_unused()
            && self.host.keeps_jobs().is_some()
        {
            let handing = self.hand_over(&buffered);
            if self.runtime.timeout(self.config.hand_over, handing).await.is_none() {
                tracing::warn!(
                    "the slices of its jobs were not handed over in time: these jobs end with it"
                );
            }
        }
        self.host.may_leave();
    }

    async fn hand_over(self: &Rc<Self>, buffered: &BufferedSlices) {
        let handing = &self.buffered.handing;
        self.post(Report::Leaving, Urgency::AtOnce);
        let runs = handing.answered.until(|| handing.told.take()).await;
        handing.is_closed.set(true);
        self.hear_no_bells();
        let mut left = Vec::new();
        for HeldJob { step, incarnation } in runs {
            let key = JobKey { step, incarnation };
            match self.leave_slices(buffered, key) {
                true => left.push(key),
                // The keeper may have got a part.
                false => self.host.ends_with_manager(key),
            }
        }
        for key in left {
            while !self.host.is_left(key) {
                self.runtime.sleep(LOOK_AGAIN).await;
            }
            tracing::info!(job = %key, "its slices are left to the next Node Manager");
        }
    }

    fn leave_slices(&self, buffered: &BufferedSlices, key: JobKey) -> bool {
        let (engine, ranks) = (buffered.engine.borrow(), buffered.ranks.borrow());
        let Some(saved) = ranks.save(&engine, engine_key(key)) else {
            tracing::warn!(job = %key, "its communication ends, or a slice is under way");
            return false;
        };
        let segments: Vec<_> =
            ranks.segments(engine_key(key)).map(|(rank, end)| (Rank(rank.0), end)).collect();
        let left = self.host.leave_slices(key, &saved, &segments);
        left.inspect_err(|error| {
            tracing::warn!(job = %key, %error, "it cannot be left to the next Node Manager");
        })
        .is_ok()
    }

    /// Continues the slices of a job of a former node manager. A job whose slices were not handed
    /// over does not communicate, and is not to begin. Returns why the job cannot continue.
    pub(super) fn inherit_slices(
        self: &Rc<Self>,
        task: &JobTask,
        left: Option<SlicesLeft>,
    ) -> Option<Flaw> {
        let key = task.key();
        if !task.launch.buffered {
            return None;
        }
        let Some(SlicesLeft { saved, segments }) = left else {
            self.buffered.never_begins(key, NM_GONE);
            return None;
        };
        // From now on the job ends with this node manager.
        self.host.ends_with_manager(key);
        let buffered = self.buffered_slices();
        let restored = {
            let (mut engine, mut ranks) =
                (buffered.engine.borrow_mut(), buffered.ranks.borrow_mut());
            let link = self.life.link();
            let whole = (&mut *engine, link.memory());
            ranks.restore(whole, engine_key(key), &saved, segments)
        };
        if let Err(error) = restored {
            return Some(Flaw::Unserviceable(error.to_string()));
        }
        buffered.continues(key);
        let bells: Vec<_> = {
            let ranks = buffered.ranks.borrow();
            let all = ranks.segments(engine_key(key));
            all.map(|(rank, end)| (member(key, Rank(rank.0)), end.bell())).collect()
        };
        for (who, bell) in bells {
            match bell {
                Ok(bell) => self.hear_bell(&buffered, who, bell),
                Err(error) => tracing::error!(%error, "a rank's bell is not heard"),
            }
        }
        self.buffered.handing.back.borrow_mut().push(key);
        None
    }

    /// Reports the jobs whose slices this node manager continues.
    pub(super) fn say_whose_slices_are_back(self: &Rc<Self>) {
        for JobKey { step, incarnation } in self.buffered.handing.back.take() {
            self.post(Report::SlicesBack { step, incarnation }, Urgency::AtOnce);
        }
    }
}
