//! The contents of listings: the manager's state as clients see it.
//!
//! Times are RFC 3339 in UTC. Fields may be added; none changes its meaning.

mod asked_for;
mod cluster_status;
mod explanation;
mod forgotten_jobs;
mod holder;
mod job_attributes;
mod job_detail;
mod job_state;
mod job_view;
mod launch_breakdown;
mod node_view;
mod partition_view;
mod priority_view;
mod prospect;
mod reservation_view;
mod share_view;
mod step_view;

pub use asked_for::asked_for;
pub use cluster_status::ClusterStatus;
pub use explanation::Explanation;
pub use forgotten_jobs::ForgottenJobs;
pub use holder::Holder;
pub use job_attributes::{JobAttributes, JobPartView, UseView};
pub use job_detail::{ClassView, JobDetail, LogEntry, RankView, SpecSummary, without_set_id};
pub use job_state::JobState;
pub use job_view::{JobView, UserView};
pub use launch_breakdown::LaunchBreakdown;
pub use node_view::{NodeState, NodeView};
pub use partition_view::PartitionView;
pub use priority_view::PriorityView;
pub use prospect::Prospect;
pub use reservation_view::{ReservationRequest, ReservationView, ReservedNodes};
pub use share_view::ShareView;
pub use step_view::StepView;
