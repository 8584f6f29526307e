//! Replays compared with published values and with those of other programs (`golden/micro*`, `swf`,
//! `expected/batch_ref.csv`). The files lie outside this repository, in the directory
//! `STORM_SHARED`.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use storm_replay::{Estimates, EventOrder, ReplayOptions, Report, Schedule, Trace, TrimPercent};
use storm_sched::swf::{Cleaning, Conformity, SwfReader};
use storm_sched::{Machine, PolicyParams, registry};

/// The names of the table and ours.
const POLICIES: [(&str, &str); 5] = [
    ("fcfs", "fcfs"),
    ("easy", "easy"),
    ("easy_sjbf", "easy-sjbf"),
    ("cons", "conservative"),
    ("sjf", "sjf"),
];

fn read(bytes: &[u8], pes: Option<u32>, estimates: Estimates) -> (Trace, u64) {
    let mut cleaning = Cleaning::default();
    let mut reader = SwfReader::new(Conformity::Strict);
    reader.push(bytes, &mut |record| cleaning.add(&record));
    let contents = reader.finish(&mut |record| cleaning.add(&record));
    assert_eq!(contents.damaged, []);
    let pes = pes.or(contents.header.max_procs()).or(contents.header.max_nodes()).unwrap();
    let cleaned = cleaning.for_machine(pes);
    (Trace::new(pes, &cleaned.jobs, estimates).unwrap(), cleaned.drops.total())
}

fn replay(trace: &Trace, policy: &str, order: EventOrder) -> Schedule {
    let machine = Machine::uniform(1, trace.pes()).unwrap();
    let mut policy = registry::by_name(policy, machine, &PolicyParams::default()).unwrap();
    let options = ReplayOptions { order, ..ReplayOptions::default() };
    let schedule = storm_replay::replay(trace, policy.as_mut(), options, &mut |_| {}).unwrap();
    policy.check().unwrap();
    assert_eq!(schedule.starts.len(), trace.jobs().len());
    schedule
}

/// The start times by job id after each heading of the golden file.
fn golden_starts() -> Option<BTreeMap<(String, String), Vec<u64>>> {
    let text = storm_reference::read("golden/micro_expected.txt")?;
    let mut starts = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(heading) = line.strip_prefix("== ") else { continue };
        let (name, rest) = heading.split_once(' ').unwrap();
        let (policy, values) = match rest.split_once(" starts(by job id) (") {
            Some((policy, list)) => {
                let list = list.trim_end_matches(')');
                (policy, list.split(", ").map(|start| start.parse().unwrap()).collect())
            }
            None => {
                let words = lines.peek().unwrap().split_whitespace();
                let values = words.filter_map(|word| word.strip_prefix("start="));
                (rest, values.map(|start| start.parse().unwrap()).collect::<Vec<u64>>())
            }
        };
        starts.insert((name.to_owned(), policy.to_owned()), values);
    }
    Some(starts)
}

#[test]
fn golden_micro_traces_start_by_start() {
    let Some(golden) = golden_starts() else { return };
    assert_eq!(golden.len(), 15);
    for ((name, policy), expected) in golden {
        let (_, ours) = POLICIES.into_iter().find(|(theirs, _)| *theirs == policy).unwrap();
        let Some(log) = storm_reference::read(&format!("golden/{name}.swf")) else { return };
        let (trace, _) = read(log.as_bytes(), None, Estimates::OfUsers);
        let schedule = replay(&trace, ours, EventOrder::PerEvent);
        let starts: Vec<f64> =
            schedule.outcomes(&trace).iter().map(|job| seconds(job.start)).collect();
        let expected: Vec<f64> = expected.into_iter().map(|start| start as f64).collect();
        assert_eq!(starts, expected, "{name} {ours}");
    }
}

fn seconds(time: storm_sched::SchedTime) -> f64 {
    time.since(storm_sched::SchedTime::ZERO).as_secs_f64()
}

/// A row of the table of reference values, all of them as they are printed.
type Row = BTreeMap<String, String>;

fn table() -> Option<Vec<Row>> {
    let text = storm_reference::read("expected/batch_ref.csv")?;
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    Some(rows.collect::<Result<Vec<Row>, _>>().unwrap())
}

fn log(name: &str) -> Option<Vec<u8>> {
    let bytes = storm_reference::read_bytes(&format!("swf/{name}.gz"))?;
    let mut log = Vec::new();
    MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut log).unwrap();
    Some(log)
}

/// Compares a value with the table's, in the table's format.
fn same(row: &Row, column: &str, ours: f64, told: &str) {
    let printed = &row[column];
    let digits = printed.split_once('.').map_or(0, |(_, digits)| digits.len());
    assert_eq!(format!("{ours:.digits$}"), *printed, "{told}: {column}");
}

#[test]
fn whole_logs_give_the_reference_values_to_every_printed_digit() {
    let Some(table) = table() else { return };
    assert_eq!(table.len(), 18);
    for row in &table {
        let (_, policy) = POLICIES.into_iter().find(|(name, _)| *name == row["policy"]).unwrap();
        let order = match row["seq"].as_str() {
            "p" => EventOrder::PerEvent,
            _ => EventOrder::Batched,
        };
        let estimates =
            if row["clairvoyant"] == "1" { Estimates::Perfect } else { Estimates::OfUsers };
        let Some(log) = log(&row["log"]) else { return };
        let pes = row["P"].parse().unwrap();
        let (trace, dropped) = read(&log, Some(pes), estimates);
        assert_eq!(dropped.to_string(), row["dropped"]);
        let report = Report::new(&trace, &replay(&trace, policy, order), TrimPercent::default());
        let told = format!("{} {policy} {order:?} {estimates:?}", row["log"]);
        let summary = report.summary;
        same(row, "jobs", summary.jobs as f64, &told);
        same(row, "avg_bsld", summary.avg_bounded_slowdown, &told);
        same(row, "avg_wait_s", summary.avg_wait_s, &told);
        same(row, "avg_resp_s", summary.avg_response_s, &told);
        same(row, "avg_slowdown", summary.avg_slowdown, &told);
        same(row, "max_bsld", summary.max_bounded_slowdown, &told);
        same(row, "util", summary.utilisation, &told);
        same(row, "makespan_s", summary.makespan_s, &told);
        same(row, "peak_procs", f64::from(report.peak_procs), &told);
    }
}

#[test]
fn the_published_slowdowns_of_kth_hold_to_their_ten_digits() {
    let Some(log) = log("KTH-SP2-filtered.swf") else { return };
    for (policy, estimates, published) in [
        ("easy", Estimates::OfUsers, "92.5765397336"),
        ("easy", Estimates::Perfect, "71.7223851124"),
        ("easy-sjbf", Estimates::OfUsers, "69.4054005803"),
        ("easy-sjbf", Estimates::Perfect, "49.8477189313"),
    ] {
        let (trace, _) = read(&log, None, estimates);
        let schedule = replay(&trace, policy, EventOrder::PerEvent);
        let summary = Report::new(&trace, &schedule, TrimPercent::default()).summary;
        let ours = format!("{:.10}", summary.avg_bounded_slowdown);
        assert_eq!(ours, published, "{policy}, {estimates:?}");
    }
}
