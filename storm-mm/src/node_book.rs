//! The book of nodes: the id of each name. An id is given once. It stays with its name for as long
//! as the node is configured or the journal has a run on it
//! (`docs/decisions/0127-a-node-is-its-name.md`).
//!
//! The book does not write the journal. The manager does, when the book differs from the journal's.

use crate::PartitionError;
use crate::cluster::ClusterEventKind;
use crate::job::{JobEventKind, StepEvent};
use crate::journal::Entry;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::{MAX_NODES, NodeId};
use storm_rm::JobId;

/// The ids of all names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBook {
    ids: BTreeMap<String, NodeId>,
    is_news: bool,
    live_jobs: u32,
}

impl NodeBook {
    /// Makes the book for the nodes `names` from a journal.
    ///
    /// # Errors
    /// [`PartitionError::NodeIds`] when there are more names than ids.
    pub fn of<'a>(
        journal: impl IntoIterator<Item = &'a Entry>,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<NodeBook, PartitionError> {
        let JournalNodes { book, used, live, steps } = JournalNodes::of(journal);
        let names: Vec<&str> = names.into_iter().collect();
        let (mut ids, mut taken) = (BTreeMap::new(), BTreeSet::from([NodeId::MM]));
        let configured: BTreeSet<&str> = names.iter().copied().collect();
        for (name, id) in book.into_iter().flatten() {
            let stays = configured.contains(name.as_str()) || used.contains(id);
            // A damaged journal may give an id twice.
            if stays && taken.insert(*id) {
                ids.insert(name.clone(), *id);
            }
        }
        taken.extend(used);
        let mut free = (1..MAX_NODES).map(NodeId).filter(|id| !taken.contains(id));
        for name in names {
            if !ids.contains_key(name) {
                let id = free.next().ok_or(PartitionError::NodeIds { most: MAX_NODES - 1 })?;
                ids.insert(name.to_owned(), id);
            }
        }
        let is_news = book != Some(&ids);
        let live_jobs = (live.len() + steps.len()).try_into().unwrap_or(u32::MAX);
        Ok(NodeBook { ids, is_news, live_jobs })
    }

    /// The id of a name.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// The highest id; a plan of global memory has places up to it.
    pub fn highest(&self) -> NodeId {
        self.ids.values().max().copied().unwrap_or(NodeId::MM)
    }

    /// The number of jobs on the machine when the journal ended, and of the further steps in their
    /// places. A manager needs a place in the arrays of flags for each.
    pub fn live_jobs(&self) -> u32 {
        self.live_jobs
    }

    /// The journal entry with this book, if the journal does not have it.
    pub(crate) fn news(&self) -> Option<ClusterEventKind> {
        self.is_news.then(|| ClusterEventKind::NodesNumbered { ids: self.ids.clone() })
    }

    /// Every name with its id, also of nodes that are not configured any more.
    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeId)> {
        self.ids.iter().map(|(name, id)| (name.as_str(), *id))
    }
}

/// The facts about nodes in a journal.
struct JournalNodes<'a> {
    book: Option<&'a BTreeMap<String, NodeId>>,
    /// The nodes that any job has run on.
    used: BTreeSet<NodeId>,
    live: BTreeSet<JobId>,
    /// The steps of jobs on the machine, apart from the first of each.
    steps: BTreeSet<(JobId, u32)>,
}

impl<'a> JournalNodes<'a> {
    fn of(journal: impl IntoIterator<Item = &'a Entry>) -> JournalNodes<'a> {
        let (used, live, steps) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut nodes = JournalNodes { book: None, used, live, steps };
        for entry in journal {
            match entry {
                Entry::Job(job, event) => nodes.note(*job, &event.kind),
                Entry::Cluster(event) => {
                    if let ClusterEventKind::NodesNumbered { ids } = &event.kind {
                        nodes.book = Some(ids);
                    }
                }
            }
        }
        nodes
    }

    fn note(&mut self, job: JobId, kind: &JobEventKind) {
        match kind {
            JobEventKind::Placed { ranks, .. } => {
                self.used.extend(ranks.iter().map(|share| share.node));
                self.live.insert(job);
            }
            JobEventKind::Ended { .. } | JobEventKind::Requeued { .. } => {
                self.live.remove(&job);
                self.steps.retain(|(of, _)| *of != job);
            }
            JobEventKind::Submitted { .. }
            | JobEventKind::ArraySubmitted { .. }
            | JobEventKind::Started { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::InReservation { .. }
            | JobEventKind::Suspended { .. }
            | JobEventKind::Resumed { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::StoppedBy { .. }
            | JobEventKind::ContinuedBy { .. }
            | JobEventKind::Changed { .. }
            | JobEventKind::UnderPolicy { .. } => {}
            JobEventKind::Step { number, event } => match event {
                StepEvent::Began { .. } => {
                    self.steps.insert((job, *number));
                }
                StepEvent::Ended { .. } => {
                    self.steps.remove(&(job, *number));
                }
                StepEvent::Started | StepEvent::Ending { .. } | StepEvent::PartOver { .. } => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterEvent;
    use crate::job::JobEvent;
    use jiff::Timestamp;
    use storm_rm::message::NodeRanks;
    use storm_rm::{JobIncarnation, Rank, Row};

    fn numbered(kind: ClusterEventKind) -> Entry {
        Entry::Cluster(ClusterEvent { at: Timestamp::UNIX_EPOCH, kind })
    }

    fn placed(job: u64, node: u32) -> Entry {
        let ranks = vec![NodeRanks { node: NodeId(node), first: Rank(0), count: 1 }];
        let (incarnation, row, node_list) = (JobIncarnation(1), Row(0), String::new());
        let kind = JobEventKind::Placed { incarnation, ranks, row, node_list };
        Entry::Job(JobId(job), JobEvent { at: Timestamp::UNIX_EPOCH, kind })
    }

    fn book(journal: &[Entry], names: &[&'static str]) -> NodeBook {
        NodeBook::of(journal, names.iter().copied()).expect("there are ids")
    }

    fn ids(book: &NodeBook) -> Vec<(&str, u32)> {
        book.iter().map(|(name, id)| (name, id.0)).collect()
    }

    fn noted(book: &NodeBook) -> Entry {
        numbered(book.news().expect("the journal does not know it"))
    }

    #[test]
    fn names_keep_their_ids_wherever_they_stand() {
        let first = book(&[], &["n1", "n2"]);
        assert_eq!(ids(&first), [("n1", 1), ("n2", 2)]);
        let journal = vec![noted(&first)];
        assert_eq!(book(&journal, &["n1", "n2"]).news(), None);
        assert_eq!(ids(&book(&journal, &["n2", "a1", "n1"])), [("a1", 3), ("n1", 1), ("n2", 2)]);
    }

    #[test]
    fn an_id_is_given_again_only_when_the_journal_tells_of_no_run_there() {
        let mut journal = vec![noted(&book(&[], &["n1", "n2"])), placed(1, 2)];
        let without = book(&journal, &["n1", "m1"]);
        assert_eq!(ids(&without), [("m1", 3), ("n1", 1), ("n2", 2)]);
        assert_eq!(without.live_jobs(), 1);
        journal.push(noted(&without));
        assert_eq!(book(&journal, &["n2", "n1"]).id("n2"), Some(NodeId(2)));
        journal.remove(1);
        assert_eq!(ids(&book(&journal, &["n1", "m1", "m2"])), [("m1", 3), ("m2", 2), ("n1", 1)]);
    }

    #[test]
    fn a_damaged_book_gives_no_id_twice() {
        let twice = ["a", "b", "c"].map(|name| (name.to_owned(), NodeId(1)));
        let mut all = BTreeMap::from(twice);
        all.insert("d".to_owned(), NodeId::MM);
        let journal = [numbered(ClusterEventKind::NodesNumbered { ids: all })];
        let book = book(&journal, &["a", "b", "c", "d"]);
        assert_eq!(ids(&book), [("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    }
}
