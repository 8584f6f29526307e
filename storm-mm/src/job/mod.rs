//! Jobs as the Machine Manager keeps them. A record changes only by applying an event. The journal
//! holds the events; replaying them gives the same record.

mod event;
mod record;

pub use event::{
    CLUSTER, Cut, DependencyNote, EndCause, Hold, JobEvent, JobEventKind, MAX_LAUNCHES, Outcome,
    PartitionConfigured, PartitionSetting, ReservationRecord, UsageOf,
};
pub use record::{JobRecord, Phase};
