//! One job of a log: a line of 18 numbers.

use std::fmt;

use super::{Damage, MAX_LOG_RUN_S, MAX_LOG_TIME_S};

/// The number of fields of a line.
pub const FIELDS: usize = 18;
/// The number of fields that a job needs: up to the processors that it got. Logs of older versions
/// of the format leave out later fields.
pub const MIN_FIELDS: usize = 5;
/// The largest whole number that a decimal fraction keeps exactly (2^53).
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
/// The number of characters shown of a bad field.
const SHOWN_CHARS: usize = 24;

/// The meaning of each field, for messages.
const NAMES: [&str; FIELDS] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// A job as the log has it. In every field, -1 means "unknown".
///
/// Times are whole seconds, as in the format. If a log has a fraction there, it is cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwfRecord {
    /// 1: the job's number.
    pub job: i64,
    /// 2: the submission, in seconds from the start of the log.
    pub submit_s: i64,
    /// 3: the wait, in seconds.
    pub wait_s: i64,
    /// 4: the run time, in seconds.
    pub run_s: i64,
    /// 5: the processors that the job got.
    pub allocated: i64,
    /// 6: the processor time in seconds, the mean over its processors. The number may have a
    /// fraction.
    pub cpu_s: f64,
    /// 7: the memory used on each processor, in KB.
    pub used_memory_kb: i64,
    /// 8: the processors that the job asked for.
    pub requested: i64,
    /// 9: the run time that the user expected, in seconds.
    pub requested_s: i64,
    /// 10: the memory asked for on each processor, in KB.
    pub requested_memory_kb: i64,
    /// 11: the status: 0 failed, 1 completed, 2 to 4 a part of a job, 5 cancelled.
    pub status: i64,
    /// 12: the job's user.
    pub user: i64,
    /// 13: the user's group.
    pub group: i64,
    /// 14: the number of the program.
    pub executable: i64,
    /// 15: the job's queue.
    pub queue: i64,
    /// 16: the job's partition.
    pub partition: i64,
    /// 17: the job that this job waited for.
    pub preceding: i64,
    /// 18: the seconds between the end of the preceding job and the submission of this job.
    pub think_s: i64,
}

impl SwfRecord {
    /// A job about which nothing is known.
    pub const UNKNOWN: Self = Self {
        job: -1,
        submit_s: -1,
        wait_s: -1,
        run_s: -1,
        allocated: -1,
        cpu_s: -1.0,
        used_memory_kb: -1,
        requested: -1,
        requested_s: -1,
        requested_memory_kb: -1,
        status: -1,
        user: -1,
        group: -1,
        executable: -1,
        queue: -1,
        partition: -1,
        preceding: -1,
        think_s: -1,
    };

    /// Reads a line that is neither blank nor a comment. Fields beyond those of the format are
    /// ignored, and missing ones at the end are unknown.
    ///
    /// # Errors
    /// The first damage of the line.
    pub fn parse(line: &[u8]) -> Result<Self, Damage> {
        let fields = || line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let mut values = [-1_i64; FIELDS];
        let mut cpu_s = -1.0;
        for (index, field) in fields().take(FIELDS).enumerate() {
            if index == CPU_FIELD {
                cpu_s = fraction(index, field)?;
            } else {
                values[index] = whole(index, field)?;
            }
        }
        let found = fields().count();
        if found < MIN_FIELDS {
            return Err(Damage::TooFewFields { found });
        }
        Ok(Self::of(&values, cpu_s))
    }

    /// Checks that the times are possible on a machine.
    pub(super) fn check_times(&self) -> Result<(), Damage> {
        let times = [(1, self.submit_s, MAX_LOG_TIME_S), (3, self.run_s, MAX_LOG_RUN_S)];
        let beyond = |(_, secs, most): &(usize, i64, u64)| {
            u64::try_from(*secs).is_ok_and(|secs| secs > *most)
        };
        match times.into_iter().find(beyond) {
            Some((index, secs, _)) => {
                let (number, name) = (index + 1, NAMES[index]);
                Err(Damage::OutOfRange { number, name, text: secs.to_string() })
            }
            None => Ok(()),
        }
    }

    pub(super) fn field_count(line: &[u8]) -> usize {
        line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).count()
    }

    fn of(values: &[i64; FIELDS], cpu_s: f64) -> Self {
        let &[
            job,
            submit_s,
            wait_s,
            run_s,
            allocated,
            _cpu,
            used_memory_kb,
            requested,
            requested_s,
            requested_memory_kb,
            status,
            user,
            group,
            executable,
            queue,
            partition,
            preceding,
            think_s,
        ] = values;
        Self {
            job,
            submit_s,
            wait_s,
            run_s,
            allocated,
            cpu_s,
            used_memory_kb,
            requested,
            requested_s,
            requested_memory_kb,
            status,
            user,
            group,
            executable,
            queue,
            partition,
            preceding,
            think_s,
        }
    }
}

impl fmt::Display for SwfRecord {
    /// Writes a line of the format, without its line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, submit_s, wait_s, run_s, allocated, cpu_s, .. } = self;
        write!(f, "{job} {submit_s} {wait_s} {run_s} {allocated} {cpu_s}")?;
        let Self { used_memory_kb, requested, requested_s, requested_memory_kb, .. } = self;
        write!(f, " {used_memory_kb} {requested} {requested_s} {requested_memory_kb}")?;
        let Self { status, user, group, executable, .. } = self;
        write!(f, " {status} {user} {group} {executable}")?;
        let Self { queue, partition, preceding, think_s, .. } = self;
        write!(f, " {queue} {partition} {preceding} {think_s}")
    }
}

/// The index of the one field that may have a fraction.
const CPU_FIELD: usize = 5;

/// Reads a whole number. A fraction is cut off.
fn whole(index: usize, field: &[u8]) -> Result<i64, Damage> {
    match std::str::from_utf8(field).ok().and_then(|text| text.parse().ok()) {
        Some(number) => Ok(number),
        // Within 2^53, so that it fits.
        None => Ok(fraction(index, field)?.trunc() as i64),
    }
}

fn fraction(index: usize, field: &[u8]) -> Result<f64, Damage> {
    let (number, name) = (index + 1, NAMES[index]);
    let text = || String::from_utf8_lossy(field).chars().take(SHOWN_CHARS).collect();
    let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    match parsed {
        None => Err(Damage::NotANumber { number, name, text: text() }),
        Some(value) if value.is_nan() => Err(Damage::NotANumber { number, name, text: text() }),
        Some(value) if value.abs() > MAX_EXACT => {
            Err(Damage::OutOfRange { number, name, text: text() })
        }
        Some(value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_eighteen_fields_are_read_in_their_order() {
        let line = b"1 2 3 4 5 6.5 7 8 9 10 11 12 13 14 15 16 17 18";
        let record = SwfRecord::parse(line).unwrap();
        assert_eq!((record.job, record.submit_s, record.wait_s, record.run_s), (1, 2, 3, 4));
        assert_eq!((record.allocated, record.cpu_s, record.used_memory_kb), (5, 6.5, 7));
        assert_eq!((record.requested, record.requested_s), (8, 9));
        assert_eq!((record.requested_memory_kb, record.status, record.user), (10, 11, 12));
        assert_eq!((record.group, record.executable, record.queue), (13, 14, 15));
        assert_eq!((record.partition, record.preceding, record.think_s), (16, 17, 18));
    }

    #[test]
    fn fractions_are_cut_off_missing_fields_unknown_and_further_ones_ignored() {
        let short = SwfRecord::parse(b"  7\t1.9 -1 3.5e2 4 ").unwrap();
        let expected =
            SwfRecord { job: 7, submit_s: 1, run_s: 350, allocated: 4, ..SwfRecord::UNKNOWN };
        assert_eq!(short, expected);
        let long = SwfRecord::parse(b"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x y").unwrap();
        assert_eq!(long.think_s, 18);
    }

    #[test]
    fn an_error_names_its_field() {
        let told = |line: &[u8]| SwfRecord::parse(line).unwrap_err().to_string();
        assert_eq!(told(b"1 2 3 x4 5"), "field 4 (run time) is \"x4\", which is not a number");
        assert_eq!(told(b"1 2 3 4"), "there are 4 fields, and a job needs at least 5");
        assert_eq!(
            told(b"1 1e300 3 4 5"),
            "field 2 (submit time) is \"1e300\", which is out of range"
        );
        assert!(told(b"1 2 3 4 nan").contains("not a number"));
        assert!(told(b"1 2 3 4 inf").contains("out of range"));
        assert!(told(b"1 2 \xff 4 5").contains("not a number"));
    }

    proptest! {
        #[test]
        fn written_records_are_read_back(
            values in prop::array::uniform18(any::<i64>()),
            cpu_s in -1.0..1e15,
        ) {
            let mut record = SwfRecord::of(&values, cpu_s);
            record.cpu_s = cpu_s;
            prop_assert_eq!(SwfRecord::parse(record.to_string().as_bytes()), Ok(record));
        }
    }
}
