//! Jobs as the Machine Manager keeps them. A record changes only by applying an event. The journal
//! holds the events; replaying them gives the same record.

mod cut;
mod end_cause;
mod event;
mod part_end;
mod record;
mod record_facts;
mod step_event;
mod step_record;
mod terms;

pub use cut::{Cut, MAX_LAUNCHES};
pub use end_cause::{EndCause, Sequel};
pub use event::{DependencyNote, Hold, JobEvent, JobEventKind, Outcome};
pub use part_end::{FencePart, PartEnd};
pub use record::{JobRecord, Phase};
pub use step_event::{EndedStep, StepEvent, StepPlace, StepUse};
pub(crate) use step_record::goes;
pub use step_record::{ENDED_STAY, ENDED_STEPS, StepRecord, StepRecords};
pub use terms::Terms;
