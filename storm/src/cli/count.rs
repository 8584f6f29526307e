//! Numbers on the command line, with errors that say what is expected.

use std::fmt::Display;
use std::str::FromStr;

/// Reads a number of at least 1.
pub(super) fn parse_count(text: &str) -> Result<u32, String> {
    within::<1, { u32::MAX }>(text)
}

/// A number of nodes, or a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeCount {
    /// The least.
    pub(crate) least: u32,
    /// The most, if there is a choice.
    pub(crate) most: Option<u32>,
}

/// Reads a number of nodes as Slurm writes it: `2`, or `2-4`.
pub(super) fn parse_nodes(text: &str) -> Result<NodeCount, String> {
    let Some((least, most)) = text.split_once('-').filter(|(least, _)| !least.is_empty()) else {
        return Ok(NodeCount { least: parse_count(text)?, most: None });
    };
    let (least, most) = (parse_count(least)?, parse_count(most)?);
    match least <= most {
        true => Ok(NodeCount { least, most: Some(most).filter(|most| *most > least) }),
        false => Err(format!("{least}-{most} is no range of nodes, as 2-4")),
    }
}

/// Reads the number of processes of `-n`.
pub(super) fn parse_procs(text: &str) -> Result<u32, String> {
    match text {
        // The rest of `-np 4` after `-n`.
        "p" => Err("the -np of mpiexec is -n here: -n 4".to_owned()),
        _ => parse_count(text),
    }
}

/// Reads a number from `LEAST` to `MOST`.
pub(super) fn within<const LEAST: u32, const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("a whole number from {LEAST} to {MOST} is expected, as 4"))
}

/// Reads any number of the integer type.
pub(super) fn whole<N: FromStr + Bounded>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("a whole number from {} to {} is expected, as 10", N::LEAST, N::MOST))
}

/// An integer type with its range.
pub(super) trait Bounded: Display + Sized {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! bounded {
    ($($integer:ty)*) => {
        $(impl Bounded for $integer {
            const LEAST: Self = <$integer>::MIN;
            const MOST: Self = <$integer>::MAX;
        })*
    };
}

bounded! { i32 u32 u64 }

/// Reads a number, with or without a fraction.
pub(super) fn decimal(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "a number is expected, as 0.7".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_counted_is_taken() {
        assert_eq!(parse_count("4"), Ok(4));
        for text in ["0", "-1", "two", "", "1.5", "4294967296"] {
            assert!(parse_count(text).is_err_and(|why| why.ends_with("expected, as 4")), "{text}");
        }
        assert!(parse_procs("p").is_err_and(|why| why.contains("-n 4")), "mpiexec -np 4");
        assert_eq!((parse_procs("4"), parse_procs("p4").is_err()), (Ok(4), true));
        assert_eq!((within::<1, 8>("8"), within::<1, 8>("9").is_err()), (Ok(8), true));
    }

    #[test]
    fn numbers_are_told_from_words() {
        assert_eq!((whole("-3"), decimal("0.5")), (Ok(-3_i32), Ok(0.5)));
        assert!(whole::<u32>("-3").is_err_and(|why| why.contains("from 0 to 4294967295")));
        assert!(["x", "NaN", "inf"].iter().all(|word| decimal(word).is_err()));
    }
}
