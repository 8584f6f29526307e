//! The cluster may notice a death before the suite does, because the report to the suite travels in
//! another packet. The suite must not count the early notice as wrong blame.

use crate::wire_cluster::LateNewsFactory;
use storm_primitives::conformance::suite::{Verdict, run_case};

const SEED: u64 = 1;

#[test]
fn a_death_that_the_suite_learns_late_still_counts() {
    for case in ["question_inner", "writing_question_last", "small_xfer_inner", "large_xfer_last"] {
        let verdict = run_case(&LateNewsFactory, SEED, &format!("death_steps::{case}"));
        assert!(matches!(verdict, Verdict::Passed), "{case}: {verdict:?}");
    }
}
