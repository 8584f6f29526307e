//! Replaying the journal results in the records that the core has.

use crate::job::JobRecord;
use crate::journal::Entry;
use crate::manager::model::world::World;
use std::collections::BTreeMap;
use storm_rm::JobId;

pub(super) fn check(world: &World) -> Result<(), String> {
    let mut records: BTreeMap<JobId, JobRecord> = BTreeMap::new();
    for (job, event) in world.journal.iter().filter_map(Entry::of_job) {
        match records.get_mut(&job) {
            Some(record) => record.apply(event),
            None => {
                let first = JobRecord::from_first(job, event);
                if first.is_empty() {
                    return Err("a job begins without a submission".to_owned());
                }
                records.extend(first.into_iter().map(|record| (record.id, record)));
            }
        }
    }
    let different = records.values().find(|record| world.core.jobs.get(&record.id) != Some(record));
    match different {
        Some(record) => Err(format!("job {} is another: {record:?}", record.id)),
        None if records.len() != world.core.jobs.keys().count() => {
            Err("a job is missing".to_owned())
        }
        None => Ok(()),
    }
}
