//! Kills a node in the middle of an operation, and checks the survivors afterwards.

use super::atomicity::{Held, InitiatorStatus, all_or_nothing, is_true_blame};
use super::bench::Death;
use super::failure::{differs, expect};
use super::trial::{promised, put};
use super::{Command, Failure, Op, OpResult, Pace, Payload, Presence, Read, Seen, Trial};
use crate::{CompareAndWrite, GlobalAddr, NodeId, NodeSet, PrimitiveError, Relation};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// The first delay before the kill, if no step can be armed. Each delay is a third longer than the
/// previous delay, so a few dozen steps cover small transfers and slow large ones.
const FIRST_DELAY: Duration = Duration::from_micros(10);

/// One operation on a set, and how to see on a node whether it happened.
pub(crate) struct Doomed {
    /// The initiator.
    pub(crate) initiator: NodeId,
    /// The set of the operation.
    pub(crate) set: NodeSet,
    /// The operation.
    pub(crate) op: Op,
    /// The read that shows the operation on a node of the set.
    pub(crate) look: Read,
    /// The result of the read before the operation.
    pub(crate) old: Seen,
    /// The result of the read after the operation. `None` if the operation writes nothing.
    pub(crate) new: Option<Seen>,
}

impl Trial {
    /// Runs `work` and kills `victim` at `step` of it. Returns the output of `work`, and whether
    /// the victim died before `work` was done.
    pub(crate) async fn with_death<F: Future>(
        &self,
        victim: NodeId,
        step: u64,
        work: F,
    ) -> Result<(F::Output, Death), Failure> {
        if self.capabilities().arm_kill {
            promised(self.cluster().arm_kill(victim, step).await)?;
            let output = work.await;
            let killed = self.cluster().is_killed(victim);
            return Ok((output, if killed { Death::Happened } else { Death::TooLate }));
        }
        let growth = (4.0f64 / 3.0).powi(i32::try_from(step).unwrap_or(i32::MAX)) - 1.0;
        let delay = FIRST_DELAY.mul_f64(growth.min(1e9));
        let done = std::cell::Cell::new(false);
        let work = async {
            let output = work.await;
            done.set(true);
            output
        };
        let kill = async {
            self.cluster().sleep(delay).await;
            let death = if done.get() { Death::TooLate } else { Death::Happened };
            self.cluster().kill(victim).await;
            death
        };
        Ok(futures_util::join!(work, kill))
    }

    /// Issues the operation, kills `victim` at its `step`, and checks the whole contract about the
    /// survivors.
    pub(crate) async fn check_death(
        &self,
        doomed: &Doomed,
        victim: NodeId,
        step: u64,
    ) -> Result<Death, Failure> {
        let issue = self.try_issue(doomed.initiator, vec![doomed.op.clone()], Pace::BackToBack);
        let (results, death) = self.with_death(victim, step, issue).await?;
        let status = match results?.map(|mut results| results.pop()) {
            Ok(Some(OpResult::Xfer(Ok(())) | OpResult::Caw(Ok(true)))) => InitiatorStatus::Success,
            Ok(Some(OpResult::Xfer(Err(error)) | OpResult::Caw(Err(error)))) => {
                InitiatorStatus::Failure(error)
            }
            Ok(other) => return differs("the answer", "TRUE or a status", format!("{other:?}")),
            Err(super::NodeGone) => InitiatorStatus::Nothing,
        };
        let mut death = death;
        if !self.cluster().is_killed(victim) && matches!(status, InitiatorStatus::Failure(_)) {
            // On another machine the cluster may notice a death before the suite does: a packet
            // with the report was lost. Send the victim a command: it answers, or turns out to be
            // dead.
            let _ = self.try_call(victim, Command::Membership).await?;
        }
        if !self.cluster().is_killed(victim) {
            match self.check_too_late(doomed, &status, victim, step).await {
                // A remote agent may receive the death of its node late. The kill is certain
                // nevertheless.
                Err(_) if self.cluster().is_killed(victim) => death = Death::Happened,
                checked => return checked.map(|()| Death::TooLate),
            }
        }
        let survivors = self.survivors();
        self.await_member(&survivors, victim, Presence::Gone).await?;
        let witness = survivors.last().unwrap_or(NodeId::MM);
        self.fence(witness).await?;
        if let InitiatorStatus::Failure(error) = &status {
            is_true_blame(error, &doomed.set, &NodeSet::single(victim))?;
        }
        let looked_at = doomed.set.intersection(&survivors);
        self.check_effect(doomed, &status, &looked_at).await?;
        self.untouched(doomed, &survivors.difference(&doomed.set)).await?;
        self.works_without(&NodeSet::single(victim)).await?;
        Ok(death)
    }

    /// The armed death was too late; it must not happen during the check.
    async fn check_too_late(
        &self,
        doomed: &Doomed,
        status: &InitiatorStatus,
        victim: NodeId,
        step: u64,
    ) -> Result<(), Failure> {
        expect("an operation without a death", InitiatorStatus::Success, status.clone())?;
        self.check_effect(doomed, status, &doomed.set).await?;
        let takes_part = doomed.set.contains(victim) || doomed.initiator == victim;
        expect("a part in the operation without a step", false, takes_part && step == 0)
    }

    /// The effect on `nodes` is all or nothing, and agrees with the status at the initiator.
    pub(crate) async fn check_effect(
        &self,
        doomed: &Doomed,
        status: &InitiatorStatus,
        nodes: &NodeSet,
    ) -> Result<(), Failure> {
        let held = self.held(doomed, nodes).await?;
        let status = if doomed.new.is_some() { status } else { &InitiatorStatus::Nothing };
        let happened = all_or_nothing(status, &held)?;
        expect("a question without a write writes", false, doomed.new.is_none() && happened)
    }

    /// The value that each node of `nodes` holds of the operation.
    pub(crate) async fn held(
        &self,
        doomed: &Doomed,
        nodes: &NodeSet,
    ) -> Result<BTreeMap<NodeId, Held>, Failure> {
        let mut held = BTreeMap::new();
        for node in nodes.iter() {
            let seen = self.read(node, vec![doomed.look]).await?;
            let what = match seen.first() {
                Some(seen) if Some(seen) == doomed.new.as_ref() => Held::New,
                Some(seen) if *seen == doomed.old => Held::Old,
                Some(_) | None => Held::Torn,
            };
            held.insert(node, what);
        }
        Ok(held)
    }

    async fn untouched(&self, doomed: &Doomed, nodes: &NodeSet) -> Result<(), Failure> {
        for (node, held) in self.held(doomed, nodes).await? {
            expect(format!("{node}, outside of {}", doomed.set), Held::Old, held)?;
        }
        Ok(())
    }

    /// Checks that the survivors are a whole cluster. Every survivor has noticed the deaths.
    /// Operations on a dead node fail and name it; all others succeed.
    pub(crate) async fn works_without(&self, dead: &NodeSet) -> Result<(), Failure> {
        let survivors = self.survivors();
        let var = self.plan().word(63);
        for (round, node) in (1..).zip(survivors.iter()) {
            let alive: NodeSet = self.members(node).await?.into_keys().collect();
            expect(format!("the living as {node} sees them"), &survivors, &alive)?;
            let op = put(&survivors, var.addr(), Payload::word(round));
            let what = format!("a transfer {node} to the survivors {survivors}");
            expect(what, Ok(()), self.xfer(node, op).await?)?;
            self.expect_word(var.addr(), &survivors, round, 0).await?;
            let caw = CompareAndWrite::new(survivors.clone(), var, Relation::Equal, round);
            expect(format!("a question of {node}"), Ok(true), self.caw(node, caw).await?)?;
            self.names_the_dead(node, &self.all(), dead).await?;
        }
        Ok(())
    }

    /// The cluster is whole: every node reaches every node.
    pub(crate) async fn works_without_dead(&self) -> Result<(), Failure> {
        let var = self.plan().word(61);
        for (round, node) in (1..).zip(self.all().iter()) {
            let op = put(&self.all(), var.addr(), Payload::word(round));
            expect(format!("a transfer {node} to all"), Ok(()), self.xfer(node, op).await?)?;
            self.expect_word(var.addr(), &self.all(), round, 0).await?;
        }
        Ok(())
    }

    /// Every node of `set` has `value` at `addr`. Other nodes are not read, because they may hang.
    pub(crate) async fn expect_held(
        &self,
        addr: GlobalAddr,
        set: &NodeSet,
        value: u64,
    ) -> Result<(), Failure> {
        for (node, seen) in self.words(set, addr).await? {
            expect(format!("the word at {addr} on {node}"), value, seen)?;
        }
        Ok(())
    }

    /// Operations of `node` on `set` fail, name exactly `dead` and have no
    /// effect.
    pub(crate) async fn names_the_dead(
        &self,
        node: NodeId,
        set: &NodeSet,
        dead: &NodeSet,
    ) -> Result<(), Failure> {
        let var = self.plan().word(62);
        let error = PrimitiveError::NodesDead { nodes: dead.clone() };
        let op = put(set, var.addr(), Payload::word(1));
        let status = self.xfer(node, op).await?;
        expect(format!("a transfer {node} to {set}, {dead} dead"), Err(error.clone()), status)?;
        let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, 0).then_write(var, 1);
        let answer = self.caw(node, caw).await?;
        expect(format!("a question {node} to {set}, {dead} dead"), Err(error), answer)?;
        self.expect_word(var.addr(), &NodeSet::new(), 0, 0).await
    }
}
