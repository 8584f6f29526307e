//! The manager as the source of what Slurm's listing commands print.

use super::asking::manager;
use super::complaint::Complaint;
use crate::failure::Failure;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use storm_mm::api::{
    Client, ClusterStatus, JobFilter, JobView, ManagerRequest, NodeView, PartitionView,
    PriorityView, Reply, ReservationView, ShareView,
};
use storm_rm::JobId;
use storm_slurm::view::{Show, TimeFormat};

/// How long squeue lists a job that has ended, in seconds: Slurm's default of `MinJobAge`.
pub(super) const MIN_JOB_AGE_S: i64 = 300;

/// A connection to the manager.
pub(super) struct Source {
    client: Client,
    status: Option<ClusterStatus>,
}

impl Source {
    /// Connects to the manager.
    pub(super) async fn open() -> Result<Source, Complaint> {
        let client = manager()?.connect().await.map_err(Failure::from)?;
        Ok(Source { client, status: None })
    }

    /// The cluster as a whole, asked for once.
    pub(super) async fn status(&mut self) -> Result<&ClusterStatus, Complaint> {
        let status = match self.status.take() {
            Some(status) => status,
            None => match self.call(ManagerRequest::Status).await? {
                Reply::Status { status } => *status,
                other => return Err(unexpected(&other)),
            },
        };
        Ok(self.status.insert(status))
    }

    /// The surroundings of the text: the user's zone and variables.
    pub(super) async fn show(&mut self) -> Result<Show, Complaint> {
        let cluster = self.status().await?.cluster.clone();
        let mut show = Show::new(TimeZone::system(), Timestamp::now(), &cluster);
        if let Ok(format) = std::env::var("SLURM_TIME_FORMAT") {
            show.time_format = TimeFormat::of(&format);
        }
        let chars = std::env::var("SLURM_BITSTR_LEN").ok().and_then(|text| text.parse().ok());
        show.index_chars = match chars {
            Some(0) => None,
            Some(chars) => Some(chars),
            None => show.index_chars,
        };
        Ok(show)
    }

    /// Whether the named clusters are this one. `all` is.
    pub(super) async fn is_one_of(&mut self, names: &[String]) -> Result<Vec<String>, Complaint> {
        let own = self.status().await?.cluster.clone();
        let other = |name: &&String| **name != own && **name != "all";
        Ok(names.iter().filter(other).cloned().collect())
    }

    pub(super) async fn jobs(&mut self, filter: JobFilter) -> Result<Vec<JobView>, Complaint> {
        match self.call(ManagerRequest::Jobs(filter)).await? {
            Reply::Jobs { jobs, .. } => Ok(jobs),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn nodes(&mut self) -> Result<Vec<NodeView>, Complaint> {
        match self.call(ManagerRequest::Nodes).await? {
            Reply::Nodes { nodes } => Ok(nodes),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn partitions(&mut self) -> Result<Vec<PartitionView>, Complaint> {
        match self.call(ManagerRequest::Partitions).await? {
            Reply::Partitions { partitions } => Ok(partitions),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn reservations(&mut self) -> Result<Vec<ReservationView>, Complaint> {
        match self.call(ManagerRequest::Reservations).await? {
            Reply::Reservations { reservations } => Ok(reservations),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn priorities(&mut self) -> Result<Vec<PriorityView>, Complaint> {
        match self.call(ManagerRequest::Priority { jobs: Vec::new() }).await? {
            Reply::Priorities { jobs, .. } => Ok(jobs),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn shares(&mut self) -> Result<Vec<ShareView>, Complaint> {
        match self.call(ManagerRequest::Shares).await? {
            Reply::Shares { shares } => Ok(shares),
            other => Err(unexpected(&other)),
        }
    }

    /// The processes that each node has room for, of the place of a job.
    pub(super) async fn places(&mut self, job: JobId) -> Result<Vec<(String, u32)>, Complaint> {
        let job = match self.call(ManagerRequest::Show { job }).await? {
            Reply::Job { job } => job,
            other => return Err(unexpected(&other)),
        };
        let mut places: Vec<(String, u32)> = Vec::new();
        for rank in &job.ranks {
            match places.last_mut() {
                Some((node, procs)) if *node == rank.node => *procs += 1,
                _ => places.push((rank.node.clone(), 1)),
            }
        }
        Ok(places)
    }

    async fn call(&mut self, request: ManagerRequest) -> Result<Reply, Complaint> {
        Ok(self.client.call(request).await.map_err(Failure::from)?)
    }
}

fn unexpected(reply: &Reply) -> Complaint {
    let text = format!("the manager sent an unexpected reply: {reply:?}");
    Complaint::from(Failure::new("protocol", text))
}
