//! Checks whether a node manager may open as many descriptors as its elements need.

use storm_pl::DescriptorLimit;

/// Descriptors of a node manager apart from places and jobs: its files, its links, its event loop.
const OWN: u64 = 64;
/// Descriptors of a running rank: standard output, standard error and PMI.
const EACH_RANK: u64 = 3;
/// A node is expected to have room for this many jobs of all elements.
const JOBS: u64 = 4;

/// How many of the `wanted` places for `pes` processes are made ahead. The waiting processes must
/// leave enough descriptors for a job of all elements. Warns if there are few.
pub(super) fn places_ahead(limit: DescriptorLimit, pes: u16, wanted: u16) -> u16 {
    let needed = needed(pes, wanted, JOBS);
    let limit_now = limit.0;
    if needed > limit.usable() {
        tracing::warn!(
            elements = pes,
            limit = limit_now,
            needed,
            "the limit on open descriptors is low for so many elements: launches that find none \
             fail; raise its hard limit (ulimit -Hn, LimitNOFILE= of the unit)"
        );
    }
    let fits = |places: &u16| self::needed(pes, *places, 1) <= limit.usable();
    (0..=wanted).rev().find(fits).unwrap_or(0)
}

/// Descriptors for `places` places of `pes` waiting processes each, and `jobs` jobs of all
/// elements.
fn needed(pes: u16, places: u16, jobs: u64) -> u64 {
    OWN + u64::from(pes) * (u64::from(places) + jobs * EACH_RANK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_made_ahead_as_long_as_a_job_fits_beside_them() {
        let ahead = |limit, pes| places_ahead(DescriptorLimit(limit), pes, 2);
        assert_eq!(ahead(524_288, 1024), 2);
        assert_eq!(ahead(1024, 64), 2);
        assert_eq!(ahead(1024, 182), 2);
        assert_eq!(ahead(1024, 228), 1);
        assert_eq!(ahead(1024, 256), 1 - 1);
        assert_eq!(ahead(64, 1024), 0);
    }

    #[test]
    fn a_node_of_256_elements_has_room_for_jobs_at_a_limit_of_4096() {
        assert!(needed(256, 2, JOBS) <= DescriptorLimit(4096).usable());
    }
}
