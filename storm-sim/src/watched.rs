//! The observed primitives of the simulated Machine Manager. Each COMPARE-AND-WRITE with a write is
//! recorded, with the memory of the nodes at the instant when it ends.

use crate::record::Record;
use crate::{Compared, Defect, Fact};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use storm_primitives::middleware::Layer;
use storm_primitives::sim::{SimNetwork, SimPrimitives};
use storm_primitives::{
    CompareAndWrite, GlobalAddr, Incarnation, NodeId, NodeSet, PrimitiveError, Primitives,
};
use storm_rm::{GlobalPlan, JobIncarnation};

/// The manager's primitives.
#[derive(Clone)]
pub(crate) struct Watched {
    inner: SimPrimitives,
    network: SimNetwork,
    record: Rc<Record>,
    /// The range of the flags of ended jobs.
    flags: Range<u64>,
    defect: Option<Rc<dyn Defect>>,
}

impl Watched {
    pub(crate) fn new(
        inner: SimPrimitives,
        network: SimNetwork,
        plan: &GlobalPlan,
        record: Rc<Record>,
        defect: Option<Rc<dyn Defect>>,
    ) -> Watched {
        let flags = plan.terminated;
        let first = if flags.is_empty() { 0 } else { flags.get(0).addr().0 };
        let end = if flags.is_empty() { 0 } else { flags.get(flags.len() - 1).addr().0 + 1 };
        Watched { inner, network, record, flags: first..end, defect }
    }

    /// The living nodes of `set` that hold `value` at `addr`.
    fn look(&self, set: &NodeSet, addr: GlobalAddr, value: u64) -> Sight {
        let lives = self.inner.membership().incarnations();
        let lives: BTreeMap<NodeId, Incarnation> =
            lives.into_iter().filter(|(node, _)| set.contains(*node)).collect();
        let holds = |node: &NodeId| {
            let node = self.network.node(*node);
            node.memory().load_word(addr).is_ok_and(|word| word == value)
        };
        let holders = lives.keys().copied().filter(holds).collect();
        Sight { lives, holders }
    }

    /// The node on which the defect leaves a COMPARE-AND-WRITE unwritten, if any, and its present
    /// value.
    fn to_leave(&self, caw: &CompareAndWrite, addr: GlobalAddr) -> Option<(NodeId, u64)> {
        let node = self.defect.as_ref()?.leaves_unwritten(caw)?;
        let word = self.network.node(node).memory().load_word(addr).ok()?;
        Some((node, word))
    }

    /// The answer as the manager receives it.
    fn as_heard(
        &self,
        caw: &CompareAndWrite,
        answer: Result<bool, PrimitiveError>,
    ) -> Result<bool, PrimitiveError> {
        match &self.defect {
            Some(defect) if self.flags.contains(&caw.var.0) => {
                answer.map(|truth| defect.hears_ended(truth))
            }
            Some(_) | None => answer,
        }
    }

    fn over(
        &self,
        caw: &CompareAndWrite,
        (addr, value): (GlobalAddr, u64),
        before: Option<Sight>,
        answer: &Result<bool, PrimitiveError>,
    ) {
        if *answer == Ok(true) && self.flags.contains(&caw.var.0) {
            self.record.note(Fact::Terminated(JobIncarnation(caw.value)));
        }
        let Some(before) = before else { return };
        let after = self.look(&caw.set, addr, value);
        // A new incarnation begins with fresh memory.
        let same_life = |node: &NodeId| before.lives.get(node) == after.lives.get(node);
        let changed = after.holders.difference(&before.holders);
        let compared = Compared {
            addr,
            answer: answer.as_ref().ok().copied(),
            asked: caw.set.clone(),
            changed: changed.iter().filter(same_life).collect(),
            living: after.lives.keys().copied().filter(same_life).collect(),
            written: after.holders,
        };
        self.record.note(Fact::Compared(&compared));
    }
}

/// The memory of some nodes at one instant.
struct Sight {
    lives: BTreeMap<NodeId, Incarnation>,
    holders: NodeSet,
}

impl Layer for Watched {
    type Inner = SimPrimitives;

    fn inner(&self) -> &SimPrimitives {
        &self.inner
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        async move {
            let Some(write) = caw.write else { return this.inner.compare_and_write(caw).await };
            let checks = this.record.is_checking();
            let before = checks.then(|| this.look(&caw.set, write.0, write.1));
            let left = this.to_leave(&caw, write.0);
            let answer = this.inner.compare_and_write(caw.clone()).await;
            if let (Ok(true), Some((node, word))) = (&answer, left) {
                this.network.node(node).memory().store_word(write.0, word)?;
            }
            this.over(&caw, write, before, &answer);
            this.as_heard(&caw, answer)
        }
    }
}
