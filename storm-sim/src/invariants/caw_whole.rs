//! A COMPARE-AND-WRITE is never half applied. When it answers TRUE, every living node of its set
//! has the value. When it answers FALSE or fails, it has changed no living node.

use super::{Broken, Invariant, broken};
use crate::Fact;

/// See the module.
#[derive(Debug)]
pub struct CawWhole;

impl Invariant for CawWhole {
    fn name(&self) -> &'static str {
        "COMPARE-AND-WRITE is never half applied"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        let Fact::Compared(compared) = fact else { return Ok(()) };
        match compared.answer {
            Some(true) => {
                let missing = compared.living.difference(&compared.written);
                if !missing.is_empty() {
                    let addr = compared.addr;
                    return broken(format!(
                        "it answered TRUE and {addr} is not written on {missing}"
                    ));
                }
            }
            Some(false) | None => {
                if !compared.changed.is_empty() {
                    let (addr, changed) = (compared.addr, &compared.changed);
                    return broken(format!("it did not answer TRUE and wrote {addr} on {changed}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compared;
    use storm_primitives::{GlobalAddr, NodeId, NodeSet};

    fn compared(answer: Option<bool>, written: NodeSet) -> Compared {
        Compared {
            addr: GlobalAddr(64),
            answer,
            asked: NodeSet::compute(3),
            changed: written.clone(),
            written,
            living: NodeSet::compute(3),
        }
    }

    #[test]
    fn a_missing_write_is_detected() {
        let half = compared(Some(true), NodeSet::compute(2));
        assert!(CawWhole.note(&Fact::Compared(&half)).is_err());
        let whole = compared(Some(true), NodeSet::compute(3));
        CawWhole.note(&Fact::Compared(&whole)).unwrap();
    }

    #[test]
    fn a_write_of_a_failed_operation_is_detected() {
        for answer in [Some(false), None] {
            let one = compared(answer, NodeSet::single(NodeId(2)));
            assert!(CawWhole.note(&Fact::Compared(&one)).is_err());
            let none = compared(answer, NodeSet::new());
            CawWhole.note(&Fact::Compared(&none)).unwrap();
        }
    }
}
