//! The clients that asked for steps, and the steps that belong to each. A step without a client
//! ends (`docs/decisions/0150-a-job-is-a-place-with-steps.md`, number 13).

use crate::api::ClientId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use storm_rm::{JobId, StepAsk};

/// The steps of each client.
#[derive(Default)]
pub(super) struct StepClients {
    steps: RefCell<BTreeMap<ClientId, BTreeSet<(JobId, StepAsk)>>>,
}

impl StepClients {
    /// A client follows a step that it asked for.
    pub(super) fn add(&self, client: ClientId, job: JobId, ask: StepAsk) {
        self.steps.borrow_mut().entry(client).or_default().insert((job, ask));
    }

    /// A client has left. Returns its steps that no other client follows.
    pub(super) fn left(&self, client: ClientId) -> Vec<(JobId, StepAsk)> {
        let mut steps = self.steps.borrow_mut();
        let own = steps.remove(&client).unwrap_or_default();
        let has_other =
            |step: &(JobId, StepAsk)| steps.values().any(|others| others.contains(step));
        own.into_iter().filter(|step| !has_other(step)).collect()
    }

    /// A step is over.
    pub(super) fn forget(&self, job: JobId, ask: StepAsk) {
        self.steps.borrow_mut().retain(|_, steps| {
            steps.remove(&(job, ask));
            !steps.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_left_with_its_last_client() {
        let (clients, job, ask) = (StepClients::default(), JobId(7), StepAsk(1));
        clients.add(ClientId(1), job, ask);
        clients.add(ClientId(2), job, ask);
        clients.add(ClientId(2), job, StepAsk(2));
        assert_eq!(clients.left(ClientId(1)), []);
        clients.forget(job, StepAsk(2));
        assert_eq!(clients.left(ClientId(2)), [(job, ask)]);
        assert_eq!(clients.left(ClientId(2)), []);
    }
}
