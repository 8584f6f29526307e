//! This node's part of a job: the launch message and the ranks of this node.

use crate::JobKey;
use crate::environment::space_of;
use crate::output_pattern::names_file_of_ranks;
use std::rc::Rc;
use storm_mpi::pmi::ProcessMapping;
use storm_mpi::pmi::mapping::{Block, NodeIndex};
use storm_mpi::pmi::node_server::NodeServerConfig;
use storm_primitives::NodeId;
use storm_rm::message::LaunchJob;
use storm_rm::{InputSpec, JobSpec, OsBytes, OutputSpec, Rank, RankMap, StepId};

/// The ranks that a host is ordered to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTask {
    /// The Machine Manager's message.
    pub launch: Rc<LaunchJob>,
    /// First rank of this node.
    pub first: Rank,
    /// Number of ranks of this node, at least 1.
    pub count: u32,
}

impl JobTask {
    /// The part of `node`; `None` if the job has no rank there.
    pub fn of_node(launch: Rc<LaunchJob>, node: NodeId) -> Option<JobTask> {
        let own = launch.step_ranks_of(node)?;
        let (first, count) = (own.first, own.count);
        // Ranks beyond the job's size, or beyond the largest rank, are invalid.
        let end = first.0.checked_add(count)?;
        (end <= launch.size()).then_some(JobTask { launch, first, count })
    }

    /// The step and its run.
    pub fn key(&self) -> JobKey {
        JobKey { step: self.launch.step, incarnation: self.launch.incarnation }
    }

    /// The user's specification.
    pub fn spec(&self) -> &JobSpec {
        &self.launch.spec
    }

    /// The ranks of this node, in order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (self.first.0..self.first.0 + self.count).map(Rank)
    }

    /// The number of processes whose elements and memory the job has on this node.
    pub fn room(&self) -> u32 {
        let first = || self.launch.ranks.iter().next().map(|share| share.count);
        match self.launch.step.step {
            StepId::Number(_) => self.count,
            StepId::Batch => first().unwrap_or(self.count),
        }
    }

    /// Whether the output of the ranks is sent to the attached client.
    pub fn output_to_client(&self) -> bool {
        matches!(self.launch.spec.step.output, OutputSpec::Client)
    }

    /// Whether ranks of this node write to files that other ranks write to as well.
    pub fn shares_files(&self) -> bool {
        match &self.spec().step.output {
            OutputSpec::Client => false,
            OutputSpec::Files { stdout, stderr } => {
                let mut patterns = [Some(stdout), stderr.as_ref()].into_iter().flatten();
                patterns.any(|pattern| self.shares_file(pattern))
            }
        }
    }

    /// Whether this pattern names a file that other ranks write to as well.
    pub(crate) fn shares_file(&self, pattern: &OsBytes) -> bool {
        names_file_of_ranks(pattern, self.launch.size(), self.count)
    }

    /// Whether a rank of this node reads what the job's client sends.
    pub fn reads_input(&self, rank: Rank) -> bool {
        match &self.launch.spec.step.input {
            InputSpec::None | InputSpec::File(_) => false,
            InputSpec::RankZero => rank.0 == 0,
            InputSpec::All => true,
        }
    }

    /// The configuration of this node's PMI server. The name of the key-value space differs for
    /// every run. A run therefore cannot see the keys of an earlier run, nor mistake another run's
    /// shared memory for its own.
    pub(crate) fn pmi_config(&self) -> NodeServerConfig {
        let launch = &self.launch;
        let mut blocks: Vec<Block> = Vec::new();
        let mut index = 0;
        for run in launch.step_ranks().collect::<RankMap>().runs() {
            match blocks.last_mut() {
                Some(last) if last.ranks_per_node == run.count => last.nodes += run.nodes,
                _ => blocks.push(Block {
                    first_node: NodeIndex(index),
                    nodes: run.nodes,
                    ranks_per_node: run.count,
                }),
            }
            index += run.nodes;
        }
        let mut kvsname = format!("storm-{}-{}", launch.step.job, launch.incarnation.0);
        if let Some(space) = space_of(&launch.spec) {
            kvsname.extend(["-", space]);
        }
        NodeServerConfig {
            kvsname,
            size: launch.size(),
            universe_size: launch.size(),
            appnum: 0,
            local_ranks: self.ranks().map(|rank| storm_mpi::Rank(rank.0)).collect(),
            process_mapping: ProcessMapping::new(blocks).to_string(),
        }
    }
}
