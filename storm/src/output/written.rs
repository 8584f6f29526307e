//! Times, sizes and exits as users read them.

use super::zone::Zone;
use jiff::Timestamp;
use nix::sys::signal::Signal;
use storm_mm::api::NodeView;
use storm_rm::EarlySignal;
use storm_rm::message::ExitStatus;
use storm_sched::MemorySize;

/// Most characters of a name that a listing shows.
const NAME_MAX_CHARS: usize = 32;

/// A time as in Slurm: `MM:SS`, `HH:MM:SS` or `D-HH:MM:SS`.
pub(super) fn seconds(total_s: u64) -> String {
    let (days, rest) = (total_s / 86_400, total_s % 86_400);
    let (hours, minutes, seconds) = (rest / 3_600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        (_, _) => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A signal ahead of a time limit, as `--signal` takes it.
pub(super) fn early_signal(EarlySignal { signal, before, script_only }: EarlySignal) -> String {
    let name = Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.to_string());
    let whom = if script_only { "B:" } else { "" };
    format!("{whom}{}@{}", name.trim_start_matches("SIG"), before.as_secs())
}

/// A time to the second, in the user's zone.
pub(super) fn time(time: Timestamp, zone: &Zone) -> String {
    time.to_zoned(zone.get().clone()).strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// The manager's text, with its RFC 3339 times replaced by times in the user's zone.
pub(super) fn local(text: &str, zone: &Zone) -> String {
    let word = |word: &str| {
        let (instant, rest) = word.split_at(word.trim_end_matches(['.', ',', ';', ':', ')']).len());
        match instant.parse::<Timestamp>() {
            Ok(instant) => time(instant, zone) + rest,
            Err(_) => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A size in the unit that leaves at most four digits.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Memory in the largest unit that divides it; a dash for none.
pub(super) fn memory(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { MemorySize(bytes).to_string() }
}

/// The memory that jobs may have on a node; a dash if it is not counted.
pub(super) fn node_memory(node: &NodeView) -> String {
    node.memory_bytes.map_or_else(|| "-".to_owned(), memory)
}

/// The features of a node; a dash for none.
pub(super) fn features(node: &NodeView) -> String {
    if node.features.is_empty() { "-".to_owned() } else { node.features.join(",") }
}

/// An exit status: `0`, or `signal 9`.
pub(super) fn exit(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => code.to_string(),
        ExitStatus::Signal(number) => match nix::sys::signal::Signal::try_from(number) {
            Ok(signal) => signal.as_str().to_owned(),
            Err(_) => format!("signal {number}"),
        },
    }
}

/// The name of a job, shortened to keep a listing's other columns in sight. `storm show` has the
/// whole name.
pub(super) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX_CHARS) {
        None => name.to_owned(),
        Some(_) => name.chars().take(NAME_MAX_CHARS - 1).chain(['…']).collect(),
    }
}

/// Foreign text for a terminal, with control characters made visible.
pub(super) fn safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use jiff::tz::offset;

    #[test]
    fn instants_among_words_are_shown_in_the_users_zone() {
        let zone = Zone::from(TimeZone::fixed(offset(2)));
        let said = "it is not to begin before 2026-11-21T23:30:00Z (BeginTime), 9999 times";
        let expected = "it is not to begin before 2026-11-22T01:30:00 (BeginTime), 9999 times";
        assert_eq!(local(said, &zone), expected);
        let said = "2026-11-21T23:30:00.123Z submitted: as 7_3";
        assert_eq!(local(said, &zone), "2026-11-22T01:30:00 submitted: as 7_3");
        assert_eq!(local("(at 2026-11-21T23:30:00Z).", &zone), "(at 2026-11-22T01:30:00).");
    }

    #[test]
    fn a_long_name_does_not_push_the_listing_out_of_sight() {
        assert_eq!(shortened("sweep3d"), "sweep3d");
        let of_32 = "é".repeat(32);
        assert_eq!(shortened(&of_32), of_32);
        assert_eq!(shortened(&"é".repeat(33)), format!("{}…", "é".repeat(31)));
    }
}
