//! Runs one case in the way that the list of cases gives, and returns the verdict.

use super::{Capabilities, Failure, Trial};
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::future::Future;

/// A death case is repeated with the death one step later until the victim
/// survives the operation; no operation of these cases takes more steps.
const MAX_DEATH_STEPS: u64 = 400;

/// The result of a case.
#[derive(Debug)]
pub enum Verdict {
    /// The contract holds.
    Passed,
    /// The backend's factory lacks an ability that the case needs.
    NotApplicable {
        /// The ability that the factory lacks.
        ability: &'static str,
    },
    /// The contract does not hold.
    Failed(Failure),
}

/// A case as a factory runs it.
pub(crate) type Body = Box<dyn FnOnce(Trial) -> LocalBoxFuture<'static, Result<Death, Failure>>>;

/// Runs the cases: a factory, whose type is hidden from the cases, and a seed.
pub(crate) struct Bench<'a> {
    pub(crate) run: &'a dyn Fn(u32, u64, Body) -> Result<Death, Failure>,
    pub(crate) capabilities: Capabilities,
    pub(crate) seed: u64,
}

/// The result of a case with a death.
pub(crate) enum Death {
    /// The victim died during the operation.
    Happened,
    /// The operation was over before the victim's step: a later step cannot show more.
    TooLate,
}

impl Bench<'_> {
    /// Runs `case` on a cluster of `compute_nodes`.
    pub(crate) fn once<Fut>(&self, compute_nodes: u32, case: fn(Trial) -> Fut) -> Verdict
    where
        Fut: Future<Output = Result<(), Failure>> + 'static,
    {
        let body = move |trial| {
            let outcome = case(trial);
            async move { outcome.await.map(|()| Death::TooLate) }.boxed_local()
        };
        match (self.run)(compute_nodes, self.seed, Box::new(body)) {
            Ok(_) => Verdict::Passed,
            Err(failure) => Verdict::Failed(failure),
        }
    }

    /// Runs `case` if the factory has the ability that it needs.
    pub(crate) fn once_if<Fut>(
        &self,
        able: bool,
        ability: &'static str,
        compute_nodes: u32,
        case: fn(Trial) -> Fut,
    ) -> Verdict
    where
        Fut: Future<Output = Result<(), Failure>> + 'static,
    {
        if able { self.once(compute_nodes, case) } else { Verdict::NotApplicable { ability } }
    }

    /// Runs `case` on a fresh cluster for every step at which the victim may
    /// die.
    pub(crate) fn each_step<Fut>(&self, compute_nodes: u32, case: fn(Trial, u64) -> Fut) -> Verdict
    where
        Fut: Future<Output = Result<Death, Failure>> + 'static,
    {
        for step in 0..MAX_DEATH_STEPS {
            let seed = self.seed.wrapping_add(step);
            let body = move |trial| case(trial, step).boxed_local();
            match (self.run)(compute_nodes, seed, Box::new(body)) {
                Ok(Death::Happened) => {}
                Ok(Death::TooLate) => return Verdict::Passed,
                Err(failure) => return Verdict::Failed(failure),
            }
        }
        let what = "the operation of a case with a death";
        Verdict::Failed(Failure::Endless { what, limit: MAX_DEATH_STEPS })
    }

    /// The abilities of the factory's clusters.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}
