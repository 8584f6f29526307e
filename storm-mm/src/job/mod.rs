//! Jobs as the Machine Manager keeps them: a record that changes only by
//! applying an event. The events are what the journal holds; replaying them gives
//! the same record.

mod event;
mod record;

pub use event::{
    EndCause, Hold, JobEvent, JobEventKind, OF_NO_JOB, Outcome, PartitionConfigured,
    PartitionSetting, ReservationRecord, UsageOf,
};
pub use record::{JobRecord, Phase};
