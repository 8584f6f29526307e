//! Spans of time as Slurm writes them.

/// `M:SS`, `H:MM:SS` or `D-HH:MM:SS`, as squeue writes times and time limits. Hours have two digits.
pub(super) fn short(total_s: u64) -> String {
    let (days, rest) = (total_s / 86_400, total_s % 86_400);
    let (hours, minutes, seconds) = (rest / 3_600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        (_, _) => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// `HH:MM:SS` or `D-HH:MM:SS`, as sacct and scontrol write times.
pub(super) fn full(total_s: u64) -> String {
    let (days, rest) = (total_s / 86_400, total_s % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

/// Processor time as sacct writes it: `MM:SS.mmm` below an hour, `00:00:00` if there is none.
pub(super) fn processor(total_us: u64) -> String {
    let (seconds, millis) = (total_us / 1_000_000, total_us / 1_000 % 1_000);
    match seconds {
        0 if millis == 0 => full(0),
        0..3_600 => format!("{:02}:{:02}.{millis:03}", seconds / 60, seconds % 60),
        _ => full(seconds),
    }
}

/// A time limit, or `UNLIMITED`.
pub(super) fn limit(limit_s: Option<u64>, text: fn(u64) -> String) -> String {
    limit_s.map_or_else(|| "UNLIMITED".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_by_each_command() {
        for (span_s, in_squeue, in_sacct) in [
            (0, "0:00", "00:00:00"),
            (83, "1:23", "00:01:23"),
            (3_600, "1:00:00", "01:00:00"),
            (36_061, "10:01:01", "10:01:01"),
            (93_840, "1-02:04:00", "1-02:04:00"),
        ] {
            assert_eq!(short(span_s), in_squeue);
            assert_eq!(full(span_s), in_sacct);
        }
        assert_eq!(limit(None, short), "UNLIMITED");
        assert_eq!(limit(Some(300), full), "00:05:00");
    }

    #[test]
    fn processor_time_has_milliseconds_below_an_hour() {
        for (time_us, text) in [
            (0, "00:00:00"),
            (999, "00:00:00"),
            (9_000, "00:00.009"),
            (61_500_000, "01:01.500"),
            (3_600_000_000, "01:00:00"),
        ] {
            assert_eq!(processor(time_us), text);
        }
    }
}
