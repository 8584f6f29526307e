//! Puts jobs of an array on one line, such as `7_[3-15]`, if they wait for the same reason, or
//! ended for the same reason before they ever ran.

use super::Changed;
use storm_mm::api::{JobState, JobView};

/// Jobs that share a line of a listing, with the name for them.
pub(super) struct Together<'a> {
    pub(super) name: String,
    pub(super) first: &'a JobView,
}

/// The lines of a listing.
pub(super) fn fold(jobs: &[JobView]) -> Vec<Together<'_>> {
    jobs.chunk_by(alike).filter_map(together).collect()
}

fn alike(one: &JobView, other: &JobView) -> bool {
    let waits = |job: &JobView| job.state == JobState::Pending;
    let never_ran = |job: &JobView| job.state.is_final() && job.started.is_none();
    let array = |job: &JobView| job.array.map(|task| task.array);
    (waits(one) || never_ran(one))
        && (waits(other) || never_ran(other))
        && one.state == other.state
        && array(one).is_some()
        && array(one) == array(other)
        && one.reason == other.reason
}

fn together(jobs: &[JobView]) -> Option<Together<'_>> {
    let first = jobs.first()?;
    let name = match first.array {
        Some(task) if jobs.len() > 1 => {
            let mut indices: Vec<u32> =
                jobs.iter().filter_map(|job| job.array).map(|task| task.index).collect();
            // Ended jobs come latest first, so they are sorted here.
            indices.sort_unstable();
            format!("{}_[{}]", task.array, ranges(&indices))
        }
        _ => first.job_name(),
    };
    Some(Together { name, first })
}

/// Names of jobs, with neighbours of one array in one name.
pub(super) fn fold_names(jobs: &[&Changed]) -> Vec<String> {
    let task = |name: &str| {
        let (array, index) = name.split_once('_')?;
        Some((array.to_owned(), index.parse::<u32>().ok()?))
    };
    let array = |job: &Changed| task(&job.name).map(|(array, _)| array);
    let alike =
        |one: &&Changed, other: &&Changed| array(one).is_some() && array(one) == array(other);
    let name = |jobs: &[&Changed]| match jobs {
        [job] => job.name.clone(),
        jobs => {
            let mut indices: Vec<u32> =
                jobs.iter().filter_map(|job| task(&job.name)).map(|(_, index)| index).collect();
            indices.sort_unstable();
            format!("{}_[{}]", array(jobs[0]).unwrap_or_default(), ranges(&indices))
        }
    };
    jobs.chunk_by(alike).map(name).collect()
}

/// Ascending indices in the shortest form: `0-14:2` or `1-3,7`.
fn ranges(indices: &[u32]) -> String {
    if let [first, second, .., last] = indices
        && *second > first + 1
        && indices.windows(2).all(|pair| pair[1] - pair[0] == second - first)
    {
        return format!("{first}-{last}:{}", second - first);
    }
    let runs = indices.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(ToString::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_written_as_they_were_given() {
        for (indices, written) in [
            (vec![3], "3"),
            (vec![3, 4], "3-4"),
            (vec![0, 1, 2, 7, 9, 10], "0-2,7,9-10"),
            (vec![0, 2, 4, 6], "0-6:2"),
            (vec![1, 5], "1,5"),
        ] {
            assert_eq!(ranges(&indices), written);
        }
    }
}
