//! The tasks of one node manager, cancelled together when it leaves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use storm_primitives::{Runtime, Task};

/// Running tasks; a finished task leaves the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskSet {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tasks: RefCell<BTreeMap<u64, Task>>,
    next: Cell<u64>,
}

impl TaskSet {
    /// Runs `future` until it is done or the set is cancelled.
    pub(crate) fn spawn(&self, runtime: &impl Runtime, future: impl Future<Output = ()> + 'static) {
        let id = self.inner.next.get();
        self.inner.next.set(id + 1);
        let set = Rc::downgrade(&self.inner);
        let task = runtime.spawn(async move {
            future.await;
            if let Some(set) = set.upgrade() {
                let own = set.tasks.borrow_mut().remove(&id);
                // The task is finished, so there is nothing to cancel.
                own.into_iter().for_each(Task::detach);
            }
        });
        self.inner.tasks.borrow_mut().insert(id, task);
    }

    /// Cancels the tasks that still run.
    pub(crate) fn cancel(&self) {
        // Dropped outside the borrow, as the end of a task may call this set again.
        let tasks = self.inner.tasks.take();
        drop(tasks);
    }
}
