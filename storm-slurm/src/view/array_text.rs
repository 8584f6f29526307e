//! Lists of the indices of an array.

/// The fewest indices with a common step that are written as `0-12:2`.
const LEAST_STEPS: usize = 7;

/// Ascending indices as Slurm writes them: `1-3,7`, or `0-12:2` for seven or more with a common
/// step. A list that does not fit into `most` characters ends with dots.
pub(super) fn indices(indices: &[u32], most: Option<usize>) -> String {
    let text = common_step(indices).unwrap_or_else(|| {
        let runs = indices.chunk_by(|one, next| one.checked_add(1) == Some(*next));
        let run = |run: &[u32]| match run {
            [first, .., last] => format!("{first}-{last}"),
            run => run.iter().map(ToString::to_string).collect(),
        };
        runs.map(run).collect::<Vec<_>>().join(",")
    });
    shortened(text, most)
}

/// `text`, shortened to a buffer of `most` characters. Slurm's buffer ends with a NUL.
pub(super) fn shortened(text: String, most: Option<usize>) -> String {
    const DOTS: &str = "...";
    match most {
        Some(most) if text.chars().count() >= most => {
            let kept = most.saturating_sub(DOTS.len() + 1);
            text.chars().take(kept).chain(DOTS.chars()).collect()
        }
        Some(_) | None => text,
    }
}

fn common_step(indices: &[u32]) -> Option<String> {
    let (first, last) = (indices.first()?, indices.last()?);
    let step = indices.get(1)?.checked_sub(*first)?;
    let same = indices.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    (same && step > 1 && indices.len() >= LEAST_STEPS).then(|| format!("{first}-{last}:{step}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those of Slurm 22.05 for `sbatch --array`.
    #[test]
    fn indices_are_written_as_slurm_writes_them() {
        let every = |step, last: u32| (0..=last).step_by(step).collect::<Vec<u32>>();
        for (list, text) in [
            (vec![3], "3"),
            (vec![1, 5], "1,5"),
            (vec![1, 2], "1-2"),
            (vec![1, 2, 3, 7, 9, 10], "1-3,7,9-10"),
            (every(2, 10), "0,2,4,6,8,10"),
            (every(2, 12), "0-12:2"),
            (every(5, 100), "0-100:5"),
            (every(1, 9), "0-9"),
        ] {
            assert_eq!(indices(&list, Some(64)), text);
        }
    }

    #[test]
    fn a_long_list_ends_with_dots() {
        let list = [
            1, 3, 5, 8, 10, 12, 14, 17, 20, 22, 24, 27, 30, 33, 36, 38, 41, 44, 47, 51, 55, 60, 63,
        ];
        let short = "1,3,5,8,10,12,14,17,20,22,24,27,30,33,36,38,41,44,47,51,55,6...";
        assert_eq!(indices(&list, Some(64)), short);
        assert_eq!(indices(&list, Some(20)), "1,3,5,8,10,12,14...");
        assert!(indices(&list, None).ends_with("60,63"));
    }
}
