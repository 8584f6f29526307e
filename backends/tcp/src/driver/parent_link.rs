//! The two lanes of the link to the parent.

use super::link::Link;
use crate::wire::Member;
use std::rc::Rc;
use storm_primitives::{Incarnation, NodeId};

/// The two lanes of a link that is in use.
#[derive(Debug)]
pub(crate) struct ParentLink {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) express: Rc<Link>,
    pub(crate) bulk: Rc<Link>,
}

impl ParentLink {
    pub(crate) fn is_to(&self, member: &Member) -> bool {
        let alive = !self.express.is_closed() && !self.bulk.is_closed();
        alive && self.node == member.node && self.incarnation == member.incarnation
    }

    pub(crate) fn close(&self) {
        self.express.close();
        self.bulk.close();
    }
}
