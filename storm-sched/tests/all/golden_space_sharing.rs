//! The policies that share space, compared with start times computed by other programs. The start
//! times are in `golden/micro*.swf`, outside this repository, under `STORM_SHARED`.

use crate::virtual_time::{Log, Telling};
use storm_sched::{PolicyParams, registry};

/// The policies with their names in the golden files.
const POLICIES: [(&str, &str); 5] = [
    ("fcfs", "fcfs"),
    ("backfill", "easy"),
    ("easy-sjbf", "easy_sjbf"),
    ("conservative", "cons"),
    ("sjf", "sjf"),
];

/// When each job starts, in seconds.
fn starts(policy: &str, log: &Log, telling: Telling) -> Vec<u64> {
    let mut policy = registry::by_name(policy, log.machine(), &PolicyParams::default()).unwrap();
    log.watch(policy.as_mut(), telling, &mut |_, policy| policy.check().unwrap())
}

/// The start times below a heading such as `== micro1 fcfs`.
fn below_heading(table: &str, heading: &str) -> Vec<u64> {
    let mut lines = table.lines().skip_while(|line| *line != heading).skip(1);
    let line = lines.next().expect("the heading has a line below it");
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("start="))
        .map(|start| start.parse().unwrap())
        .collect()
}

/// The start times in a heading such as `== micro3 fcfs starts(by job id) (0, 6)`.
fn in_heading(table: &str, heading: &str) -> Vec<u64> {
    let found = table.lines().find_map(|line| line.strip_prefix(heading));
    let list = found.expect("the heading is there").trim().trim_matches(['(', ')']);
    list.split(", ").map(|start| start.parse().unwrap()).collect()
}

#[test]
fn micro1_and_micro2_start_as_in_the_reference() {
    let Some(table) = storm_reference::read("golden/micro_expected.txt") else { return };
    for log_name in ["micro1", "micro2"] {
        let Some(text) = storm_reference::read(&format!("golden/{log_name}.swf")) else { return };
        let log = Log::parse(&text);
        for (policy, golden) in POLICIES {
            let expected = below_heading(&table, &format!("== {log_name} {golden}"));
            assert_eq!(expected.len(), log.jobs.len());
            assert_eq!(starts(policy, &log, Telling::PerEvent), expected, "{log_name} {policy}");
        }
    }
}

#[test]
fn micro3_starts_as_in_the_reference_and_differently_under_each_policy() {
    let Some(table) = storm_reference::read("golden/micro_expected.txt") else { return };
    let Some(text) = storm_reference::read("golden/micro3.swf") else { return };
    let log = Log::parse(&text);
    let mut all = Vec::new();
    for (policy, golden) in POLICIES {
        let expected = in_heading(&table, &format!("== micro3 {golden} starts(by job id)"));
        let starts = starts(policy, &log, Telling::PerEvent);
        assert_eq!(starts, expected, "{policy}");
        assert!(!all.contains(&starts), "{policy} starts as another one");
        all.push(starts);
    }
}

#[test]
fn the_order_of_telling_makes_no_difference_where_no_instant_has_two_kinds_of_events() {
    let Some(text) = storm_reference::read("golden/micro1.swf") else { return };
    let log = Log::parse(&text);
    for (policy, _) in POLICIES {
        let (one_by_one, together) =
            (starts(policy, &log, Telling::PerEvent), starts(policy, &log, Telling::Together));
        assert_eq!(one_by_one, together, "{policy}");
    }
}
