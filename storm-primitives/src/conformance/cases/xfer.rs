//! XFER-AND-SIGNAL reaches exactly its set (paper, section 2.4.1).

use super::Trial;
use crate::conformance::failure::expect;
use crate::conformance::trial::put;
use crate::conformance::{Cluster, Failure, Payload};
use crate::{NodeId, NodeSet};

/// A transfer to one node: there the data, nowhere else.
pub(crate) async fn reaches_one_node<C: Cluster>(t: Trial<C>) -> Result<(), Failure> {
    let addr = t.plan().word_addr(0);
    let dest = NodeSet::single(NodeId(2));
    expect("status", Ok(()), t.xfer(NodeId(1), put(&dest, addr, Payload::word(7))).await?)?;
    for node in t.all().iter() {
        let expected = if dest.contains(node) { 7 } else { 0 };
        expect(format!("word on {node}"), expected, t.word(node, addr).await?)?;
    }
    Ok(())
}
