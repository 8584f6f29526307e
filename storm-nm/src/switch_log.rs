//! The times of strobes on this node: a bounded ring of single switches, and histograms of all of
//! them.

use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::io::{self, Write};
use storm_primitives::Instant;
use storm_rm::message::Strobe;

/// Longest time that a histogram distinguishes, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of the histograms: 1 % is finer than any clock here.
const DIGITS: u8 = 2;

/// A strobe as handled by this node. Times are in nanoseconds: the node's by its own clock, the
/// strobe's by the Machine Manager's. The two clocks are comparable on a single host and in virtual
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchRecord {
    /// The strobe.
    pub strobe: Strobe,
    /// Time before the first job was stopped.
    pub before_ns: u64,
    /// Time after the last job was resumed.
    pub after_ns: u64,
    /// Number of jobs stopped.
    pub stopped: u32,
    /// Number of jobs resumed.
    pub resumed: u32,
}

/// The switches of a node manager.
#[derive(Clone, Debug)]
pub struct SwitchLog {
    records: VecDeque<SwitchRecord>,
    limit: usize,
    /// From the strobe's issue to the end of the switch, in nanoseconds.
    since_issue: Histogram<u32>,
    /// From the strobe's arrival to the end of the switch, in nanoseconds.
    switch: Histogram<u32>,
}

impl SwitchLog {
    /// An empty log that remembers the last `limit` switches.
    pub fn new(limit: usize) -> SwitchLog {
        SwitchLog { records: VecDeque::new(), limit, since_issue: histogram(), switch: histogram() }
    }

    /// Adds one switch.
    pub fn record(
        &mut self,
        strobe: Strobe,
        (before, after): (Instant, Instant),
        (stopped, resumed): (usize, usize),
    ) {
        let (before_ns, after_ns) = (before.as_nanos(), after.as_nanos());
        // Fails only for values above LONGEST_NS, to which it cannot grow.
        let _ = self.since_issue.record(after_ns.saturating_sub(strobe.issued_ns).min(LONGEST_NS));
        let _ = self.switch.record(after_ns.saturating_sub(before_ns).min(LONGEST_NS));
        if self.limit == 0 {
            return;
        }
        if self.records.len() == self.limit {
            self.records.pop_front();
        }
        let (stopped, resumed) = (count(stopped), count(resumed));
        self.records.push_back(SwitchRecord { strobe, before_ns, after_ns, stopped, resumed });
    }

    /// The last switches, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &SwitchRecord> {
        self.records.iter()
    }

    /// Nanoseconds from the issue of a strobe to the end of its switch, if the two clocks are the
    /// same.
    pub fn since_issue(&self) -> &Histogram<u32> {
        &self.since_issue
    }

    /// Nanoseconds from the arrival of a strobe to the end of its switch.
    pub fn switch(&self) -> &Histogram<u32> {
        &self.switch
    }

    /// Writes the ring as comma-separated values with a header line.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "partition,row,strobe,issued_ns,before_ns,after_ns,stopped,resumed")?;
        for record in &self.records {
            let Strobe { partition, row, number, issued_ns } = record.strobe;
            let SwitchRecord { before_ns, after_ns, stopped, resumed, .. } = record;
            writeln!(
                out,
                "{},{},{number},{issued_ns},{before_ns},{after_ns},{stopped},{resumed}",
                partition.0, row.0
            )?;
        }
        Ok(())
    }
}

fn histogram() -> Histogram<u32> {
    // The histogram grows as needed: with many nodes in a process, the whole range for each would
    // take too much memory. Fails only for more than 5 digits.
    Histogram::new(DIGITS).expect("a constant that the histogram accepts")
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{PartitionId, Row};

    #[test]
    fn the_ring_is_bounded_and_the_histograms_keep_all() {
        let mut log = SwitchLog::new(2);
        for number in 1..=3u64 {
            let issued_ns = number * 1_000_000;
            let strobe = Strobe { partition: PartitionId(0), row: Row(1), number, issued_ns };
            let at = |ns| Instant::from_nanos(issued_ns + ns);
            log.record(strobe, (at(1_000), at(3_000)), (1, 1));
        }
        let numbers: Vec<u64> = log.records().map(|record| record.strobe.number).collect();
        assert_eq!(numbers, [2, 3]);
        assert_eq!(log.switch().len(), 3);
        let mut csv = Vec::new();
        log.write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().nth(1), Some("0,1,2,2000000,2001000,2003000,1,1"));
    }
}
