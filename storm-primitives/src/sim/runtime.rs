//! Virtual time behind the [`Runtime`] trait.

use crate::sim::executor::Core;
use crate::sim::fabric::Random;
use crate::sim::group::Group;
use crate::sim::timers::TimerKey;
use crate::{Instant, Runtime, Task};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// The clock and executor of one simulated node.
#[derive(Clone)]
pub struct SimRuntime {
    core: Rc<Core>,
    group: Option<Group>,
}

impl SimRuntime {
    pub(super) fn new(core: Rc<Core>, group: Option<Group>) -> SimRuntime {
        SimRuntime { core, group }
    }

    /// The world's random numbers, for models of nodes.
    pub fn random(&self) -> Random<'_> {
        Random::new(&self.core)
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Instant {
        self.core.now()
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> + 'static {
        Sleep { core: Rc::downgrade(&self.core), deadline, timer: None }
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Task {
        let id = self.core.spawn(self.group, future);
        // Weak: a task stored inside another task must not keep the world alive.
        let core = Rc::downgrade(&self.core);
        Task::new(move || {
            if let Some(core) = core.upgrade() {
                core.cancel(id);
            }
        })
    }
}

struct Sleep {
    core: Weak<Core>,
    deadline: Instant,
    timer: Option<TimerKey>,
}

impl Sleep {
    fn forget_timer(&mut self, core: &Core) {
        if let Some(timer) = self.timer.take() {
            core.cancel_timer(timer);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(core) = self.core.upgrade() else { return Poll::Pending };
        if core.now() >= self.deadline {
            self.forget_timer(&core);
            return Poll::Ready(());
        }
        if !self.timer.is_some_and(|timer| core.rewake(timer, cx.waker())) {
            self.timer = Some(core.wake_at(self.deadline, cx.waker()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            self.forget_timer(&core);
        }
    }
}
