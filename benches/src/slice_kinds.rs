//! The time of a slice of buffered coscheduling by its work, in the virtual time of a simulated
//! machine.

use crate::buffered::{Setting, one_per_node};
use anyhow::Result;
use bytes::Bytes;
use serde::Serialize;
use std::time::Duration;
use storm_bcs::modelled::{Machine, ModelledRank, Peer};
use storm_bcs::{BcsError, Collective, JobKey, Number, Reduction, RequestId};
use storm_mpi::{Rank, ReduceOp};

/// The work of all ranks in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SliceKind {
    /// Nothing.
    Empty,
    /// Each sends 8 bytes to the next.
    Messages,
    /// A barrier.
    Barrier,
    /// A broadcast of 8 bytes.
    Broadcast,
    /// A sum of one number, for all.
    Sum,
    /// Messages and a sum.
    Both,
}

impl SliceKind {
    /// All of them.
    pub const ALL: [SliceKind; 6] = [
        SliceKind::Empty,
        SliceKind::Messages,
        SliceKind::Barrier,
        SliceKind::Broadcast,
        SliceKind::Sum,
        SliceKind::Both,
    ];

    async fn once(self, rank: &ModelledRank, ranks: u32) -> Result<(), BcsError> {
        let sum = || {
            let reduction = Reduction { op: ReduceOp::Sum, number: Number::U64 };
            Collective::Reduce { data: vec![1; 8].into(), reduction, root: None }
        };
        match self {
            SliceKind::Empty => rank.compute(Duration::from_secs(1)).await,
            SliceKind::Messages => {
                let (send, receive) = begun(rank, ranks)?;
                rank.wait(send).await?;
                rank.wait(receive).await?;
            }
            SliceKind::Barrier => rank.collective(Collective::Barrier).await.map(|_| ())?,
            SliceKind::Broadcast => {
                let data = Bytes::from(vec![1; 8]);
                rank.collective(Collective::Broadcast { root: 0, data }).await.map(|_| ())?;
            }
            SliceKind::Sum => rank.collective(sum()).await.map(|_| ())?,
            SliceKind::Both => {
                let (send, receive) = begun(rank, ranks)?;
                rank.collective(sum()).await?;
                rank.wait(send).await?;
                rank.wait(receive).await?;
            }
        }
        Ok(())
    }
}

/// Starts to send a message to the next rank, and to receive one from the previous rank.
fn begun(rank: &ModelledRank, ranks: u32) -> Result<(RequestId, RequestId), BcsError> {
    let other = |by: u32| Rank((rank.rank().0 + by) % ranks);
    let receive = rank.irecv(other(ranks - 1), 8)?;
    Ok((rank.isend(other(1), Bytes::from(vec![1; 8]))?, receive))
}

/// The time of a slice.
#[derive(Clone, Debug, Serialize)]
pub struct SliceTime {
    /// Compute nodes, a rank on each.
    pub nodes: u32,
    /// The work.
    pub kind: SliceKind,
    /// The time from the first strobe until the network is known to be empty. The value is the
    /// upper quartile of the slices: ranks that wait for an operation in one slice do nothing in
    /// the next.
    pub took_us: f64,
}

impl Setting {
    /// Simulates `slices` slices in which ranks do this work whenever they can.
    ///
    /// # Errors
    /// If there is no such profile or the simulation fails.
    pub fn slice_of(&self, kind: SliceKind, nodes: u32, slices: u32) -> Result<SliceTime> {
        let simulation = self.simulation();
        let machine = Machine::new(&simulation, nodes, self.fabric(nodes)?, self.config);
        for rank in machine.launch(JobKey(1), &one_per_node(nodes)) {
            rank.run(move |rank| async move { while kind.once(&rank, nodes).await.is_ok() {} });
        }
        let mut sender = machine.strobe_sender();
        let all = simulation.run(async move {
            let mut all = Vec::new();
            for _ in 0..slices {
                all.push(sender.slice().await?.took);
            }
            all.sort_unstable();
            Ok::<_, storm_bcs::SliceError>(all)
        })??;
        let took = all.get(all.len() * 3 / 4).copied().unwrap_or_default();
        Ok(SliceTime { nodes, kind, took_us: took.as_secs_f64() * 1e6 })
    }
}
