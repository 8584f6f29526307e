//! Numbers on the command line, with what is expected where something else stands.

use std::str::FromStr;

/// What `mpiexec` calls the number of processes: clap reads its `-np 4` as `-n p`.
const OF_MPIEXEC: &str = "p";

/// At least 1.
pub(super) fn parse_count(text: &str) -> Result<u32, String> {
    if text == OF_MPIEXEC {
        return Err("the -np of mpiexec is -n here: -n 4".to_owned());
    }
    within::<1, { u32::MAX }>(text)
}

/// From `LEAST` to `MOST`.
pub(super) fn within<const LEAST: u32, const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| match (MOST, text.parse::<f64>()) {
        (u32::MAX, Ok(number)) if number < f64::from(LEAST) => {
            format!("at least {LEAST} is expected")
        }
        _ => format!("a whole number from {LEAST} to {MOST} is expected, as 4"),
    })
}

/// Whatever the type has.
pub(super) fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "a whole number is expected, as 10".to_owned())
}

/// With a fraction or without.
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
        for few in ["0", "-1"] {
            assert_eq!(parse_count(few), Err("at least 1 is expected".to_owned()));
        }
        for text in ["two", "", "1.5", "4294967296"] {
            assert!(parse_count(text).is_err_and(|why| why.ends_with("expected, as 4")), "{text}");
        }
        assert!(parse_count("p").is_err_and(|why| why.contains("-n 4")), "mpiexec -np 4");
        assert_eq!((within::<1, 8>("8"), within::<1, 8>("9").is_err()), (Ok(8), true));
    }

    #[test]
    fn numbers_are_told_from_words() {
        assert_eq!((whole("-3"), decimal("0.5")), (Ok(-3), Ok(0.5)));
        assert!(whole::<u32>("-3").is_err() && whole::<u8>("256").is_err());
        assert!(["x", "NaN", "inf"].iter().all(|word| decimal(word).is_err()));
    }
}
