//! Faults of nodes and links, and the messages that wait while a link is cut.

use super::state::Network;
use crate::NodeId;
use crate::sim::NodeFault;
use crate::sim::link::Link;
use std::rc::Rc;

impl Network {
    pub(super) fn inflict(self: &Rc<Self>, node: NodeId, fault: NodeFault) {
        let what = format!("{fault:?}");
        match fault {
            NodeFault::Kill => return self.kill(node),
            NodeFault::Freeze => return self.freeze(node),
            NodeFault::Thaw => return self.thaw(node),
            NodeFault::Delay(delay) => self.alter_link(node, |link| link.delay = delay),
            NodeFault::Slow { percent } => {
                self.alter_link(node, |link| link.slow_percent = percent.max(1));
            }
            NodeFault::Lossy { per_mille, resend } => self.alter_link(node, |link| {
                link.lost_per_mille = per_mille;
                link.resend = resend;
            }),
            NodeFault::Cut => {
                self.alter_link(node, |link| link.cut = true);
                let life = self.state.borrow().nodes[node.index()].life;
                self.notice_silence(node, life);
            }
            NodeFault::Mend => {
                self.alter_link(node, |link| {
                    *link = Link { slow_percent: link.slow_percent, ..Link::SOUND };
                });
                self.let_through(node);
            }
        }
        self.core.trace().record(self.core.now(), node, what);
    }

    fn alter_link(&self, node: NodeId, alter: impl FnOnce(&mut Link)) {
        if let Some(entry) = self.state.borrow_mut().nodes.get_mut(node.index()) {
            alter(&mut entry.link);
        }
    }

    /// Messages that waited on both sides of a mended link cross it, in order.
    fn let_through(self: &Rc<Self>, node: NodeId) {
        let held = std::mem::take(&mut self.state.borrow_mut().nodes[node.index()].held);
        held.into_iter().for_each(|action| action(self));
        self.work_off_inbox(node);
    }

    /// Delivers a message over the link of `node`: once the link is whole, or never if that
    /// incarnation of the node is over.
    pub(super) fn over_link(
        self: &Rc<Self>,
        node: NodeId,
        life: u64,
        action: impl FnOnce(&Rc<Network>) + 'static,
    ) {
        let cut = {
            let entry = &self.state.borrow().nodes[node.index()];
            if entry.life != life {
                return;
            }
            entry.link.cut
        };
        if !cut {
            action(self);
        } else if let Some(entry) = self.state.borrow_mut().nodes.get_mut(node.index())
            && !entry.known_dead
        {
            entry.held.push_back(Box::new(action));
        }
    }
}
