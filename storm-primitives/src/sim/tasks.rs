//! The tasks of a simulation, and the ready tasks among them.
//!
//! A task is found by its place in a table. A place is reused under a new generation, so that a
//! waker that outlives its task wakes no other task. Waking a task, choosing a random ready task
//! and finding it all take constant time.

use crate::sim::group::Group;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The future of a task.
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Names a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskId {
    index: usize,
    generation: u64,
}

/// All tasks, by place.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<usize>,
    next_generation: u64,
}

/// One task.
pub(super) struct Task {
    generation: u64,
    pub(super) group: Option<Group>,
    /// Taken out while it is being polled.
    pub(super) future: Option<TaskFuture>,
    waker: Arc<TaskWaker>,
}

/// The ready tasks, each once.
#[derive(Default)]
pub(super) struct ReadyQueue {
    ids: Mutex<Vec<TaskId>>,
}

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl Tasks {
    /// Adds a task, ready to run.
    pub(super) fn add(
        &mut self,
        group: Option<Group>,
        future: TaskFuture,
        ready: &Arc<ReadyQueue>,
    ) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let generation = self.next_generation;
        self.next_generation += 1;
        let id = TaskId { index, generation };
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(false), ready: ready.clone() });
        waker.wake_by_ref();
        self.slots[index] = Some(Task { generation, group, future: Some(future), waker });
        id
    }

    /// The task, if it is not over.
    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.slots.get_mut(id.index)?.as_mut().filter(|task| task.generation == id.generation)
    }

    /// Takes a task out, for the caller to drop: its drop may cancel others.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.get_mut(id)?;
        self.free.push(id.index);
        self.slots[id.index].take()
    }

    /// Takes out all tasks of a group, in the order of their places.
    pub(super) fn remove_group(&mut self, group: Group) -> Vec<Task> {
        let of_group = |task: &mut Task| task.group == Some(group);
        let mut removed = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(task) = slot.take_if(of_group) {
                removed.push(task);
                self.free.push(index);
            }
        }
        removed
    }

    /// Makes all tasks of a group ready.
    pub(super) fn wake_group(&self, group: Group) {
        let of_group = self.slots.iter().flatten().filter(|task| task.group == Some(group));
        of_group.for_each(|task| task.waker.wake_by_ref());
    }
}

impl Task {
    /// The waker of this task. From now on the task can be made ready again.
    pub(super) fn take_turn(&mut self) -> Waker {
        self.waker.queued.store(false, Ordering::Relaxed);
        Waker::from(self.waker.clone())
    }
}

impl ReadyQueue {
    fn lock(&self) -> MutexGuard<'_, Vec<TaskId>> {
        // A waker that panicked while holding the lock leaves a whole value.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of ready tasks.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Takes the ready task at `index`; those behind it change places.
    pub(super) fn take(&self, index: usize) -> TaskId {
        self.lock().swap_remove(index)
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().push(self.id);
        }
    }
}
