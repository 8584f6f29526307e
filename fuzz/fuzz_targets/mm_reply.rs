//! The lines that the Machine Manager sends its clients, as a client reads them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::{MM_USER, job_spec, manager_config, plant};
use storm_mm::Core;
use storm_mm::api::{Hello, JobFilter, Reply, ReplyLine};
use storm_primitives::Instant;

/// All replies of a manager with one job.
fn replies() -> Vec<Vec<u8>> {
    let now = Instant::ORIGIN;
    let mut core = Core::new(manager_config("gang"), [], now).expect("own configuration");
    let refusal = core.submit(now, MM_USER, job_spec(1000, false, false)).expect_err("too large");
    // No node is up: it waits.
    let job = core.submit(now, MM_USER, job_spec(4, false, false)).expect("it fits");
    let replies = [
        Reply::Ok,
        Reply::Error { error: refusal },
        Reply::Submitted { job },
        Reply::Jobs { jobs: core.list_jobs(now, &JobFilter::default()), more: false },
        Reply::Explanation { explanation: Box::new(core.explain(now, job).expect("it is there")) },
        Reply::Nodes { nodes: core.list_nodes(now) },
        Reply::Partitions { partitions: core.list_partitions() },
    ];
    let line = |reply| serde_json::to_vec(&ReplyLine { id: 1, reply }).expect("it is written");
    let hello = serde_json::to_vec(&Hello::ours()).expect("it is written");
    replies.map(line).into_iter().chain([hello]).collect()
}

fuzz_target!(init: plant(replies()), |line: &[u8]| {
    if let Ok(hello) = serde_json::from_slice::<Hello>(line) {
        let text = serde_json::to_vec(&hello).expect("what was read is written");
        assert_eq!(serde_json::from_slice::<Hello>(&text).expect("its own text"), hello);
    }
    let Ok(reply) = serde_json::from_slice::<ReplyLine>(line) else { return };
    let text = serde_json::to_vec(&reply).expect("what was read is written");
    assert!(!text.contains(&b'\n'));
    // The value may differ: a time in milliseconds loses its last bit in decimals.
    serde_json::from_slice::<ReplyLine>(&text).expect("its own text");
});
