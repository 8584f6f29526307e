//! The contents of the next heartbeat: commands, strobes, and nodes that must show that they are
//! alive.

use super::deaths::Deaths;
use crate::{ActiveRows, Draft};
use std::cell::{Cell, RefCell};
use storm_primitives::{Bell, NodeSet};
use storm_rm::PartitionId;
use storm_rm::heartbeat::encoded_bytes;
use storm_rm::message::{Command, Heartbeat, Slices};

/// Filled by all tasks, emptied by the heartbeats.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: RefCell<Vec<(NodeSet, Waiting)>>,
    /// Nodes to be reached even without a command for them.
    probed: RefCell<NodeSet>,
    deaths: Deaths,
    /// Highest number of a delivered heartbeat that probed.
    last_probe: Cell<u64>,
    bell: Bell,
}

/// A command that waits for its heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Waiting {
    Command(Command),
    Draft(Draft),
}

impl From<Command> for Waiting {
    fn from(command: Command) -> Waiting {
        Waiting::Command(command)
    }
}

impl From<Draft> for Waiting {
    fn from(draft: Draft) -> Waiting {
        Waiting::Draft(draft)
    }
}

impl Waiting {
    /// The command, if it leaves while these rows are active.
    fn leaving(&self, active: &ActiveRows) -> Command {
        match self {
            Waiting::Command(command) => command.clone(),
            Waiting::Draft(draft) => draft.command(active),
        }
    }

    /// The partition that a command strobes, if it is a strobe.
    fn strobed(&self) -> Option<PartitionId> {
        match self {
            Waiting::Command(Command::Strobe(strobe)) => Some(strobe.partition),
            Waiting::Command(Command::Slices(slices)) => Some(slices.strobe.partition),
            Waiting::Command(_) | Waiting::Draft(_) => None,
        }
    }
}

/// The contents of one heartbeat.
#[derive(Debug, Default)]
pub(super) struct Batch {
    waited: Vec<(NodeSet, Waiting)>,
    pub(super) probed: NodeSet,
    /// The rows that were active when the batch left the outbox. Later strobes are sent in later
    /// heartbeats.
    active: ActiveRows,
}

impl Batch {
    /// All nodes that the batch is sent to.
    pub(super) fn nodes(&self) -> NodeSet {
        self.waited.iter().fold(self.probed.clone(), |all, (nodes, _)| all.union(nodes))
    }

    /// The commands. A launch and the answer to a join name the rows that were active when the
    /// batch left the outbox.
    pub(super) fn commands(&self) -> Vec<(NodeSet, Command)> {
        let leaving =
            |(nodes, one): &(NodeSet, Waiting)| (nodes.clone(), one.leaving(&self.active));
        self.waited.iter().map(leaving).collect()
    }

    /// Removes all other nodes from the batch, and commands that have no node left.
    pub(super) fn keep(&mut self, nodes: &NodeSet) {
        self.probed = self.probed.intersection(nodes);
        for (to, _) in &mut self.waited {
            *to = to.intersection(nodes);
        }
        self.waited.retain(|(to, _)| !to.is_empty());
    }

    /// These nodes died after the batch was taken: its commands are not for their next
    /// incarnations.
    pub(super) fn nodes_died(&mut self, dead: &NodeSet) {
        forget(&mut self.waited, dead);
    }

    /// Takes the probe out of the batch if it reaches nodes that get no command: they are then
    /// probed by a heartbeat of their own.
    pub(super) fn take_probe(&mut self) -> NodeSet {
        let told = self.waited.iter().fold(NodeSet::new(), |all, (nodes, _)| all.union(nodes));
        if self.probed.is_subset(&told) {
            return NodeSet::new();
        }
        std::mem::take(&mut self.probed)
    }

    /// Takes the later half of the commands, which lack their active rows again.
    pub(super) fn second_half(&mut self) -> Vec<(NodeSet, Waiting)> {
        self.waited.split_off(self.waited.len() / 2)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waited.is_empty() && self.probed.is_empty()
    }
}

impl Outbox {
    /// Sends a command with the next heartbeat, after the commands that wait already. If the
    /// command just before is the same for other nodes, it is shared. Every node reads the whole
    /// heartbeat, and thousands of nodes may join at once.
    pub(super) fn say(&self, nodes: NodeSet, command: impl Into<Waiting>) {
        if nodes.is_empty() {
            return;
        }
        let command = command.into();
        let mut waiting = self.waiting.borrow_mut();
        match waiting.last_mut() {
            Some((others, last)) if *last == command && !others.intersects(&nodes) => {
                *others = others.union(&nodes);
            }
            _ => waiting.push((nodes, command)),
        }
        self.bell.ring();
    }

    /// Puts commands that did not fit into their heartbeat before all that wait.
    pub(super) fn give_back(&self, mut rest: Vec<(NodeSet, Waiting)>) {
        let mut waiting = self.waiting.borrow_mut();
        rest.append(&mut waiting);
        *waiting = rest;
        self.bell.ring();
    }

    /// Strobes with the next heartbeat. A strobe that has not left yet is replaced: nodes skip
    /// quanta, they do not catch up.
    ///
    /// Nodes that only the older strobe was for still get it, since it may recall slices that they
    /// would otherwise begin by themselves. These nodes do not receive the slices that the new
    /// strobe orders, since nothing would recall those slices.
    pub(super) fn strobe(&self, nodes: NodeSet, slices: Slices) {
        let partition = slices.strobe.partition;
        self.waiting.borrow_mut().retain_mut(|(others, command)| {
            if command.strobed() == Some(partition) {
                *others = others.difference(&nodes);
            }
            !others.is_empty()
        });
        let alone = slices.following.is_empty();
        let slices = if alone { Command::Strobe(slices.strobe) } else { Command::Slices(slices) };
        self.say(nodes, slices);
    }

    /// Makes the next heartbeat reach these nodes in any case.
    pub(super) fn probe(&self, nodes: &NodeSet) {
        let mut probed = self.probed.borrow_mut();
        *probed = probed.union(nodes);
        self.bell.ring();
    }

    /// Nodes died: their entries in the queue of heartbeats are free, and the commands that waited
    /// for them were for their former incarnations.
    pub(super) fn nodes_died(&self, dead: &NodeSet) {
        forget(&mut self.waiting.borrow_mut(), dead);
        self.deaths.note(dead);
    }

    /// The deaths of nodes.
    pub(super) fn deaths(&self) -> &Deaths {
        &self.deaths
    }

    /// The heartbeat of this number, which probed, was delivered.
    pub(super) fn probe_delivered(&self, number: u64) {
        self.last_probe.set(self.last_probe.get().max(number));
    }

    /// The latest delivered heartbeat that probed; 0 before the first.
    pub(super) fn last_probe(&self) -> u64 {
        self.last_probe.get()
    }

    /// Waits until there is something to send.
    pub(super) async fn news(&self) {
        while self.waiting.borrow().is_empty() && self.probed.borrow().is_empty() {
            self.bell.heard().await;
        }
    }

    /// Waits for something to send. Returns as much as fits a heartbeat of `limit_bytes`, in order,
    /// strobes first. `active` answers which rows are active, and may add strobes before.
    pub(super) async fn next_batch(
        &self,
        limit_bytes: usize,
        active: impl Fn() -> ActiveRows,
    ) -> Batch {
        self.news().await;
        let active = match self.waiting.borrow().is_empty() {
            true => ActiveRows::default(),
            false => active(),
        };
        let waited = self.take_fitting(limit_bytes, &active);
        Batch { waited, probed: self.probed.take(), active }
    }

    /// A command that is too large for any heartbeat is taken alone: issuing it fails, but the
    /// other commands are not lost with it.
    fn take_fitting(&self, limit_bytes: usize, active: &ActiveRows) -> Vec<(NodeSet, Waiting)> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.sort_by_key(|(_, command)| command.strobed().is_none());
        let mut bytes: usize = 0;
        let mut fitting = 0;
        for (nodes, command) in waiting.iter() {
            let commands = vec![(nodes.clone(), command.leaving(active))];
            let alone = Heartbeat { number: u64::MAX, issued_ns: u64::MAX, commands };
            bytes = bytes.saturating_add(encoded_bytes(&alone).unwrap_or(limit_bytes));
            if bytes > limit_bytes && fitting > 0 {
                break;
            }
            fitting += 1;
        }
        waiting.drain(..fitting).collect()
    }
}

/// Removes dead nodes from the commands. Only Shutdown stays, since their next incarnations must
/// receive it too.
fn forget(waiting: &mut Vec<(NodeSet, Waiting)>, dead: &NodeSet) {
    waiting.retain_mut(|(nodes, command)| {
        if !matches!(command, Waiting::Command(Command::Shutdown)) {
            *nodes = nodes.difference(dead);
        }
        !nodes.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resumed;
    use futures_util::FutureExt;
    use storm_primitives::NodeId;
    use storm_rm::message::Strobe;
    use storm_rm::{Coscheduling, JobId, JobIncarnation, JobSlot, Row, RowSet, StepRef};

    const LIMIT_BYTES: usize = 1024;

    fn destroy(job: u64) -> Command {
        Command::DestroyJob { step: StepRef::program(JobId(job)) }
    }

    fn strobe(partition: u16, number: u64) -> Slices {
        let partition = PartitionId(partition);
        let strobe = Strobe { partition, row: Row(0), number, issued_ns: 0 };
        Slices { strobe, quantum_ns: 1, following: Vec::new() }
    }

    fn next(outbox: &Outbox) -> Option<Batch> {
        outbox.next_batch(LIMIT_BYTES, ActiveRows::default).now_or_never()
    }

    #[test]
    fn what_many_are_told_in_turn_is_said_once_and_what_one_is_told_twice_twice() {
        let outbox = Outbox::default();
        let node = |id| NodeSet::single(NodeId(id));
        for id in 1..=3 {
            outbox.say(node(id), destroy(1));
        }
        outbox.say(node(2), destroy(1));
        let said = next(&outbox).unwrap().commands();
        assert_eq!(said, [(NodeSet::compute(3), destroy(1)), (node(2), destroy(1))]);
    }

    #[test]
    fn commands_keep_their_order_and_strobes_overtake_them() {
        let outbox = Outbox::default();
        let all = NodeSet::compute(3);
        outbox.say(all.clone(), destroy(1));
        let following = vec![Row(1)];
        outbox.strobe(all.clone(), Slices { following, ..strobe(0, 1) });
        outbox.say(all.clone(), destroy(2));
        outbox.strobe(all.clone(), strobe(1, 1));
        outbox.strobe(all.clone(), strobe(0, 2));
        let said: Vec<Command> =
            next(&outbox).unwrap().commands().into_iter().map(|c| c.1).collect();
        let strobes = [strobe(1, 1), strobe(0, 2)].map(|one| Command::Strobe(one.strobe));
        assert_eq!(said, [&strobes[..], &[destroy(1), destroy(2)]].concat());
        assert!(next(&outbox).is_none());
    }

    /// The row in which a job resumes on node 2.
    fn resumed_row(batch: &Batch) -> Row {
        let commands = batch.commands();
        let (_, Command::Resume { jobs, .. }) = &commands[commands.len() - 1] else {
            panic!("{commands:?}")
        };
        jobs[0].active_row
    }

    /// If a launch or an answer to a join stayed in the outbox, it would name a row that is no
    /// longer active.
    #[test]
    fn a_draft_names_the_row_that_is_active_when_it_leaves() {
        let outbox = Outbox::default();
        let in_row = |row| move || [Row(row)].into_iter().collect::<ActiveRows>();
        let job = Resumed {
            step: StepRef::program(JobId(1)),
            incarnation: JobIncarnation(1),
            slot: JobSlot(0),
            partition: PartitionId(0),
            rows: RowSet::single(Row(0)),
            coscheduling: Coscheduling::Strobed,
            hold_output: false,
        };
        outbox.say(NodeSet::single(NodeId(1)), destroy(2));
        let draft = Draft::Resume { jobs: vec![job], next_run: JobIncarnation(2), clients: None };
        outbox.say(NodeSet::single(NodeId(2)), draft);
        let mut batch = outbox.next_batch(LIMIT_BYTES, in_row(1)).now_or_never().unwrap();
        assert_eq!(resumed_row(&batch), Row(1));
        outbox.give_back(batch.second_half());
        assert_eq!(batch.commands(), [(NodeSet::single(NodeId(1)), destroy(2))]);
        let again = outbox.next_batch(LIMIT_BYTES, in_row(2)).now_or_never().unwrap();
        assert_eq!(resumed_row(&again), Row(2));
    }

    #[test]
    fn a_recall_happens_when_another_strobe_overtakes_it() {
        let outbox = Outbox::default();
        let one = NodeSet::single(NodeId(2));
        outbox.strobe(NodeSet::compute(3), strobe(0, 1));
        outbox.strobe(one.clone(), Slices { following: vec![Row(1)], ..strobe(0, 2) });
        let said = next(&outbox).unwrap().commands();
        let [(recalled, recall), (told, order)] = &said[..] else { panic!("{said:?}") };
        assert_eq!(*recalled, NodeSet::compute(3).difference(&one));
        assert_eq!(*recall, Command::Strobe(strobe(0, 1).strobe));
        assert_eq!(*told, one);
        assert!(matches!(order, Command::Slices(_)));
    }

    #[test]
    fn items_that_do_not_fit_wait_and_oversized_items_go_alone() {
        let outbox = Outbox::default();
        let node = NodeSet::single(NodeId(1));
        let input = |len: usize| Command::Input {
            step: StepRef::program(JobId(1)),
            data: vec![7; len].into(),
            eof: false,
        };
        for len in [600, 600, 5000, 10] {
            outbox.say(node.clone(), input(len));
        }
        for len in [600, 600, 5000, 10] {
            assert_eq!(next(&outbox).unwrap().commands(), [(node.clone(), input(len))]);
        }
    }

    /// Deaths among the nodes made the heartbeat longer than allowed, and all of it was dropped.
    /// Jobs that were to end or to begin did neither.
    #[test]
    fn thousands_of_commands_that_deaths_make_too_long_are_all_told_in_order() {
        const LIMIT_BYTES: usize = 64 << 10;
        let outbox = Outbox::default();
        let all = NodeSet::compute(4000);
        // Distinct jobs, so that no two commands are joined.
        let jobs: Vec<u64> = (1..=6000).collect();
        jobs.iter().for_each(|job| outbox.say(all.clone(), destroy(*job)));
        let survivors: NodeSet = all.iter().filter(|node| node.0 % 400 != 0).collect();
        let (mut told, mut too_long) = (Vec::new(), 0);
        while let Some(mut batch) =
            outbox.next_batch(LIMIT_BYTES, ActiveRows::default).now_or_never()
        {
            batch.keep(&survivors);
            let heartbeat = Heartbeat { number: 1, issued_ns: 1, commands: batch.commands() };
            if encoded_bytes(&heartbeat).expect("it can be encoded") > LIMIT_BYTES {
                too_long += 1;
                outbox.give_back(batch.second_half());
            }
            let heartbeat = Heartbeat { number: 1, issued_ns: 1, commands: batch.commands() };
            assert!(encoded_bytes(&heartbeat).expect("it can be encoded") <= LIMIT_BYTES);
            told.extend(batch.commands().into_iter().map(|(_, command)| command));
        }
        assert!(too_long > 0, "nothing was put to the test");
        assert!(told == jobs.into_iter().map(destroy).collect::<Vec<_>>());
    }

    #[test]
    fn a_probe_needs_no_command_and_nobody_is_told_nothing() {
        let outbox = Outbox::default();
        outbox.say(NodeSet::new(), destroy(1));
        assert!(next(&outbox).is_none());
        outbox.probe(&NodeSet::compute(2));
        outbox.say(NodeSet::single(NodeId(3)), destroy(1));
        let mut batch = next(&outbox).unwrap();
        assert_eq!(batch.nodes(), NodeSet::compute(3));
        assert_eq!(
            (batch.take_probe(), batch.nodes()),
            (NodeSet::compute(2), NodeSet::single(NodeId(3)))
        );
        batch.keep(&NodeSet::single(NodeId(2)));
        assert!(batch.is_empty());
    }

    #[test]
    fn a_message_to_a_node_also_probes_it() {
        let outbox = Outbox::default();
        outbox.probe(&NodeSet::compute(2));
        outbox.say(NodeSet::compute(3), destroy(1));
        let mut batch = next(&outbox).unwrap();
        assert_eq!((batch.take_probe(), batch.probed), (NodeSet::new(), NodeSet::compute(2)));
    }
}
