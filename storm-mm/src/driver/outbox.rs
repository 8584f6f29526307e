//! The contents of the next heartbeat: commands, strobes, and nodes that must show that they are
//! alive.

use super::deaths::Deaths;
use std::cell::{Cell, RefCell};
use storm_primitives::{Bell, NodeSet};
use storm_rm::PartitionId;
use storm_rm::heartbeat::encoded_bytes;
use storm_rm::message::{Command, Heartbeat, Slices};

/// Filled by all tasks, emptied by the heartbeats.
#[derive(Default)]
pub(super) struct Outbox {
    commands: RefCell<Vec<(NodeSet, Command)>>,
    /// Nodes to be reached even without a command for them.
    probed: RefCell<NodeSet>,
    deaths: Deaths,
    /// Highest number of a delivered heartbeat that probed.
    last_probe: Cell<u64>,
    bell: Bell,
}

/// The contents of one heartbeat.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) commands: Vec<(NodeSet, Command)>,
    pub(super) probed: NodeSet,
}

impl Batch {
    /// All nodes that the batch goes to.
    pub(super) fn nodes(&self) -> NodeSet {
        self.commands.iter().fold(self.probed.clone(), |all, (nodes, _)| all.union(nodes))
    }

    /// Removes all other nodes from the batch, and commands that have no node left.
    pub(super) fn keep(&mut self, nodes: &NodeSet) {
        self.probed = self.probed.intersection(nodes);
        for (to, _) in &mut self.commands {
            *to = to.intersection(nodes);
        }
        self.commands.retain(|(to, _)| !to.is_empty());
    }

    /// These nodes died after the batch was taken: its commands are not for their next lives.
    pub(super) fn nodes_died(&mut self, dead: &NodeSet) {
        forget(&mut self.commands, dead);
    }

    /// Takes the probe out of the batch if it reaches nodes that get no command: they are then
    /// probed by a heartbeat of their own.
    pub(super) fn take_probe(&mut self) -> NodeSet {
        let told = self.commands.iter().fold(NodeSet::new(), |all, (nodes, _)| all.union(nodes));
        if self.probed.is_subset(&told) {
            return NodeSet::new();
        }
        std::mem::take(&mut self.probed)
    }

    /// Takes the later half of the commands.
    pub(super) fn second_half(&mut self) -> Vec<(NodeSet, Command)> {
        self.commands.split_off(self.commands.len() / 2)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.probed.is_empty()
    }
}

impl Outbox {
    /// Sends a command with the next heartbeat, after the commands that wait already. The command
    /// just before is shared if it is the same for other nodes: every node reads all of a
    /// heartbeat, and thousands may join at once.
    pub(super) fn say(&self, nodes: NodeSet, command: Command) {
        if nodes.is_empty() {
            return;
        }
        let mut commands = self.commands.borrow_mut();
        match commands.last_mut() {
            Some((others, last)) if *last == command && !others.intersects(&nodes) => {
                *others = others.union(&nodes);
            }
            _ => commands.push((nodes, command)),
        }
        self.bell.ring();
    }

    /// Puts commands that did not fit into their heartbeat before all that wait.
    pub(super) fn give_back(&self, mut rest: Vec<(NodeSet, Command)>) {
        let mut commands = self.commands.borrow_mut();
        rest.append(&mut commands);
        *commands = rest;
        self.bell.ring();
    }

    /// Strobes with the next heartbeat. A strobe that has not left yet is replaced: nodes skip
    /// quanta, they do not catch up.
    ///
    /// Nodes that only the older strobe was for still get it, since it may recall slices that they
    /// would otherwise begin by themselves. These nodes do not hear of the slices that the new
    /// strobe orders, since nothing would recall them.
    pub(super) fn strobe(&self, nodes: NodeSet, slices: Slices) {
        let partition = slices.strobe.partition;
        self.commands.borrow_mut().retain_mut(|(others, command)| {
            if strobed(command) == Some(partition) {
                *others = others.difference(&nodes);
            }
            !others.is_empty()
        });
        let alone = slices.following.is_empty();
        let slices = if alone { Command::Strobe(slices.strobe) } else { Command::Slices(slices) };
        self.say(nodes, slices);
    }

    /// Has the next heartbeat reach these nodes in any case.
    pub(super) fn probe(&self, nodes: &NodeSet) {
        let mut probed = self.probed.borrow_mut();
        *probed = probed.union(nodes);
        self.bell.ring();
    }

    /// Nodes died: their entries in the queue of heartbeats are free, and the commands that waited
    /// for them were for the lives that are over.
    pub(super) fn nodes_died(&self, dead: &NodeSet) {
        forget(&mut self.commands.borrow_mut(), dead);
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
        while self.commands.borrow().is_empty() && self.probed.borrow().is_empty() {
            self.bell.heard().await;
        }
    }

    /// Waits for something to send. Returns as much as fits a heartbeat of `limit_bytes`, in order,
    /// strobes first.
    pub(super) async fn next_batch(&self, limit_bytes: usize) -> Batch {
        loop {
            let batch =
                Batch { commands: self.take_fitting(limit_bytes), probed: self.probed.take() };
            if !batch.is_empty() {
                return batch;
            }
            self.bell.heard().await;
        }
    }

    /// Takes a command that is too large by itself alone: issuing it fails, but the others are not
    /// lost with it.
    fn take_fitting(&self, limit_bytes: usize) -> Vec<(NodeSet, Command)> {
        let mut commands = self.commands.borrow_mut();
        commands.sort_by_key(|(_, command)| strobed(command).is_none());
        let mut bytes: usize = 0;
        let mut fitting = 0;
        for entry in commands.iter() {
            let alone =
                Heartbeat { number: u64::MAX, issued_ns: u64::MAX, commands: vec![entry.clone()] };
            bytes = bytes.saturating_add(encoded_bytes(&alone).unwrap_or(limit_bytes));
            if bytes > limit_bytes && fitting > 0 {
                break;
            }
            fitting += 1;
        }
        commands.drain(..fitting).collect()
    }
}

/// Removes dead nodes from the commands. Only Shutdown stays, since their next lives must hear it
/// too.
fn forget(commands: &mut Vec<(NodeSet, Command)>, dead: &NodeSet) {
    commands.retain_mut(|(nodes, command)| {
        if *command != Command::Shutdown {
            *nodes = nodes.difference(dead);
        }
        !nodes.is_empty()
    });
}

/// The partition that a command strobes, if it is a strobe.
fn strobed(command: &Command) -> Option<PartitionId> {
    match command {
        Command::Strobe(strobe) => Some(strobe.partition),
        Command::Slices(slices) => Some(slices.strobe.partition),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use storm_primitives::NodeId;
    use storm_rm::message::Strobe;
    use storm_rm::{JobId, Row};

    const LIMIT_BYTES: usize = 1024;

    fn destroy(job: u64) -> Command {
        Command::DestroyJob { job: JobId(job) }
    }

    fn strobe(partition: u16, number: u64) -> Slices {
        let partition = PartitionId(partition);
        let strobe = Strobe { partition, row: Row(0), number, issued_ns: 0 };
        Slices { strobe, quantum_ns: 1, following: Vec::new() }
    }

    fn next(outbox: &Outbox) -> Option<Batch> {
        outbox.next_batch(LIMIT_BYTES).now_or_never()
    }

    #[test]
    fn what_many_are_told_in_turn_is_said_once_and_what_one_is_told_twice_twice() {
        let outbox = Outbox::default();
        let node = |id| NodeSet::single(NodeId(id));
        for id in 1..=3 {
            outbox.say(node(id), destroy(1));
        }
        outbox.say(node(2), destroy(1));
        let said = next(&outbox).unwrap().commands;
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
        let said: Vec<Command> = next(&outbox).unwrap().commands.into_iter().map(|c| c.1).collect();
        let strobes = [strobe(1, 1), strobe(0, 2)].map(|one| Command::Strobe(one.strobe));
        assert_eq!(said, [&strobes[..], &[destroy(1), destroy(2)]].concat());
        assert!(next(&outbox).is_none());
    }

    #[test]
    fn a_recall_happens_when_another_strobe_overtakes_it() {
        let outbox = Outbox::default();
        let one = NodeSet::single(NodeId(2));
        outbox.strobe(NodeSet::compute(3), strobe(0, 1));
        outbox.strobe(one.clone(), Slices { following: vec![Row(1)], ..strobe(0, 2) });
        let said = next(&outbox).unwrap().commands;
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
        let input =
            |len: usize| Command::Input { job: JobId(1), data: vec![7; len].into(), eof: false };
        for len in [600, 600, 5000, 10] {
            outbox.say(node.clone(), input(len));
        }
        for len in [600, 600, 5000, 10] {
            assert_eq!(next(&outbox).unwrap().commands, [(node.clone(), input(len))]);
        }
    }

    /// Deaths among the nodes made the heartbeat longer than allowed, and all of it was dropped:
    /// jobs that were to end, or to begin, did neither.
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
        while let Some(mut batch) = outbox.next_batch(LIMIT_BYTES).now_or_never() {
            batch.keep(&survivors);
            let commands = batch.commands.clone();
            let heartbeat = Heartbeat { number: 1, issued_ns: 1, commands };
            if encoded_bytes(&heartbeat).expect("it can be encoded") > LIMIT_BYTES {
                too_long += 1;
                outbox.give_back(batch.second_half());
            }
            let commands = batch.commands.clone();
            let heartbeat = Heartbeat { number: 1, issued_ns: 1, commands };
            assert!(encoded_bytes(&heartbeat).expect("it can be encoded") <= LIMIT_BYTES);
            told.extend(batch.commands.into_iter().map(|(_, command)| command));
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
