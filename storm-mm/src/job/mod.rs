//! Jobs as the Machine Manager keeps them. A record changes only by applying an event. The journal
//! holds the events; replaying them gives the same record.

mod cut;
mod event;
mod record;

pub use cut::{Cut, MAX_LAUNCHES};
pub use event::{
    CLUSTER, DependencyNote, EndCause, Hold, JobEvent, JobEventKind, Outcome, PartitionConfigured,
    PartitionSetting, ReservationRecord, UsageOf,
};
pub use record::{JobRecord, Phase};
