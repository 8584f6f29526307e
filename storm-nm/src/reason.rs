//! Errors as users read them: the error and its causes, in a line that fits a report.

use nix::errno::Errno;
use std::error::Error;
use std::fmt::Write;
use std::io;
use storm_pl::Shortage;

/// Most causes that are followed; no error here has more.
const DEPTH_MAX: usize = 8;
/// The longest reason: far more than anybody reads, and short enough for an item of the queue of
/// reports. Users choose the paths in it.
const REASON_BYTES_MAX: usize = 1024;

/// The error and its causes, joined by colons.
pub(crate) fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..DEPTH_MAX {
        let Some(error) = cause else { break };
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// An amount of memory in the largest unit that divides it.
pub(crate) fn amount(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// The limit on open descriptors, if it is the reason for an error. An error of this kind concerns
/// no particular file.
pub(crate) fn descriptor_limit(error: &(dyn Error + 'static)) -> Option<String> {
    let first: Option<&(dyn Error + 'static)> = Some(error);
    let chain = std::iter::successors(first, source).take(DEPTH_MAX);
    let numbers = chain.filter_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
    let known = [Errno::EMFILE, Errno::ENFILE];
    let mut reached = numbers.filter(|number| known.contains(&Errno::from_raw(*number)));
    Shortage::of(storm_pl::Errno(reached.next()?)).map(|shortage| shortage.to_string())
}

fn source<'a>(error: &&'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    (**error).source()
}

/// The reason, cut if it is too long for a report.
pub(crate) fn bounded(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|at| reason.is_char_boundary(*at));
        reason.truncate(end.unwrap_or_default());
        reason.push_str("...");
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a job was killed for "more than the 0 MiB" that it requested.
    #[test]
    fn an_amount_is_never_rounded_to_nothing() {
        let amounts = [1 << 10, 1536 << 10, 1_500, 3 << 30, 0].map(amount);
        assert_eq!(amounts, ["1 KiB", "1536 KiB", "1500 bytes", "3072 MiB", "0 bytes"]);
    }

    #[test]
    fn a_limit_on_descriptors_is_named_once() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno as i32);
        let limit = descriptor_limit(&of(Errno::EMFILE)).expect("one is reached");
        assert!(limit.contains("LimitNOFILE="), "{limit}");
        assert_eq!(descriptor_limit(&of(Errno::ENOENT)), None);
        let wrapped = storm_pl::SpecError::MemoryFile(of(Errno::EMFILE));
        let refused = crate::LaunchRefused::because(&wrapped).reason;
        assert_eq!(refused.matches("LimitNOFILE=").count(), 1, "{refused}");
        let named = storm_pl::LaunchError::Streams(of(Errno::EMFILE));
        let refused = crate::LaunchRefused::because(&named).reason;
        assert_eq!(refused.matches("LimitNOFILE=").count(), 1, "{refused}");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = bounded(format!("a{}", "ö".repeat(REASON_BYTES_MAX)));
        assert_eq!(long.len(), REASON_BYTES_MAX - 1 + 3);
        assert!(long.ends_with("ö..."), "{long}");
        assert_eq!(bounded("short".to_owned()), "short");
    }
}
