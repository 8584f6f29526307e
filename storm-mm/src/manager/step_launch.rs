//! The launch of a further step: the place's facts, with the program, the ranks and the memory of
//! the step.

use super::jobs::without_dependency;
use super::{Core, Launch};
use crate::job::{JobRecord, StepRecord};
use std::rc::Rc;
use storm_primitives::NodeSet;
use storm_rm::{JobId, JobSpec, Memory, OutputSpec, Resources, Share, StepSize};

impl Core {
    /// The launch of a step, as its nodes get it.
    pub(super) fn step_launch(&self, (job, number): (JobId, u32)) -> Option<Launch> {
        let (record, step) = self.step_record((job, number))?;
        let place = self.live.get(job)?;
        let live = place.step(number)?;
        let partition = &self.partitions[place.partition()];
        Some(Launch {
            step: super::steps::step_ref(job, number),
            incarnation: step.run,
            place: place.incarnation(),
            slot: live.slot(),
            task: record.task,
            spec: Rc::new(JobSpec {
                procs: step.procs(),
                nodes: step.size.nodes,
                resources: self.resources_of_step(record, step),
                step: (*step.spec).clone(),
                ..without_dependency(&record.spec).into_owned()
            }),
            ranks: step.ranks.iter().cloned().collect(),
            partition: place.partition(),
            rows: place.rows(),
            coscheduling: partition.coscheduling(),
            announcer: self.announcer(live.nodes()),
            node_list: self.step_node_list(live.nodes()),
            buffered: partition.policy().communication_slice().is_some(),
            facts: self.facts_of(record),
            hold_output: self.holds_step_output((job, number)),
        })
    }

    /// Whether the nodes of a step are to hold its output, since its client may return.
    pub(super) fn holds_step_output(&self, (job, number): (JobId, u32)) -> bool {
        let goes_to_client = self
            .step_record((job, number))
            .is_some_and(|(_, step)| matches!(step.spec.output, OutputSpec::Client));
        goes_to_client && self.live.step(job, number).is_some_and(|step| !step.has_client())
    }

    /// The folded names of a step's nodes.
    pub(super) fn step_node_list(&self, nodes: &NodeSet) -> String {
        self.nodes.fold(nodes)
    }

    fn resources_of_step(&self, record: &JobRecord, step: &StepRecord) -> Resources {
        Resources {
            cpus_per_task: step.size.elements_each,
            tasks_per_node: None,
            memory: self.memory_of_step(record, step),
            exclusive: false,
            ..record.spec.resources.clone()
        }
    }

    /// The memory of a step on its nodes. All nodes get the same demand, so a step without one has
    /// the smallest share among its nodes for each element.
    fn memory_of_step(&self, record: &JobRecord, step: &StepRecord) -> Memory {
        let StepSize { memory, share, .. } = step.size;
        match (memory, share) {
            (Memory::PerNode(_) | Memory::PerCpu(_), _) => return memory,
            (Memory::WholeNode, _) | (Memory::Unstated, Share::WholeNodes | Share::Overlap) => {}
            (Memory::Unstated, Share::Exact) => {
                let per_element = self.memory_of_place(record, step, |bytes, elements| {
                    bytes.checked_div(u64::from(elements)).unwrap_or(bytes)
                });
                return per_element.map_or(Memory::Unstated, Memory::PerCpu);
            }
        }
        self.memory_of_place(record, step, |bytes, _| bytes)
            .map_or(record.spec.resources.memory, Memory::PerNode)
    }

    /// The least of `part` over the nodes of a step, each with the memory and the elements that the
    /// place has there. `None` if the place's memory is not counted.
    fn memory_of_place(
        &self,
        record: &JobRecord,
        step: &StepRecord,
        part: impl Fn(u64, u32) -> u64,
    ) -> Option<u64> {
        let rooms = self.rooms(record).into_iter();
        let of_step = rooms.filter(|room| step.ranks.iter().any(|share| share.node == room.node));
        of_step.filter_map(|room| Some(part(room.memory_bytes?, room.elements))).min()
    }
}
