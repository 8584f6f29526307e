//! The scenarios of this crate run to their ends, the same way every time. Invalid scenarios are
//! refused with the reason.

use std::error::Error;
use std::path::Path;
use storm_sim::JobReport;
use storm_sim::scenario::{self, RunOptions, Scenario, ScenarioFailure};

fn read(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    Scenario::read(&path).unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

fn traced(seed: u64) -> RunOptions {
    RunOptions { seed: Some(seed), traces: true }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    let scenario = read("random-faults.toml");
    let run = |seed| {
        let outcome = scenario::run(&scenario, traced(seed)).expect("the seed passes");
        let report = serde_json::to_string(&outcome.report).expect("a report is JSON");
        (report, outcome.trace.expect("a trace was asked for").to_json())
    };
    let first = run(7);
    assert!(first.1.len() > 10_000, "the trace is too short to tell anything");
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[test]
fn every_scenario_can_be_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("scenarios are there") {
        read(&entry.expect("an entry").file_name().to_string_lossy());
        count += 1;
    }
    assert!(count >= 8, "only {count} scenarios");
}

#[test]
fn a_script_of_faults_ends_well_under_every_seed() {
    let scenario = read("misfortunes.toml");
    for seed in 0..20 {
        let outcome = scenario::run(&scenario, traced(seed)).expect("the seed passes");
        let jobs = &outcome.report.jobs;
        let survivors = jobs.iter().filter(|job| job.name == "survivor");
        assert!(survivors.clone().all(|job| job.state == "COMPLETED"), "seed {seed}: {jobs:?}");
        assert_eq!(survivors.count(), 3);
        assert_eq!(jobs.last().map(|job| job.name.as_str()), Some("fresh"));
    }
}

#[test]
fn a_node_back_before_its_death_is_noticed_delays_no_job() {
    let scenario = read("misfortunes.toml");
    let faults = scenario.faults.iter().take(2).copied().collect();
    let scenario = Scenario { faults, ..scenario };
    scenario::run(&scenario, traced(1)).expect("it ends");
}

/// Regression: messages on their way to a dead node reached its next incarnation. The new
/// incarnation then followed slices that were never withdrawn, and later launches on it did not
/// start.
#[test]
fn the_scenario_of_the_user_guide_passes_under_every_seed() {
    const HEADING: &str = "## Simulating a machine";
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/user-guide.md");
    let guide = std::fs::read_to_string(guide).expect("the user guide is there");
    let section = &guide[guide.find(HEADING).expect("the section")..];
    let text = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let printed = Scenario::parse(text.expect("a scenario")).expect("it can be read");
    for scenario in [printed, read("returning-nodes.toml")] {
        for seed in 0..30 {
            scenario::run(&scenario, RunOptions { seed: Some(seed), traces: false })
                .unwrap_or_else(|failure| panic!("seed {seed}, {:?}: {failure}", scenario.title));
        }
    }
}

/// The reasons why a text is not a scenario.
fn refusal(text: &str) -> String {
    let error = Scenario::parse(text).expect_err("a refusal");
    let first: Option<&dyn Error> = Some(&error);
    let sources = std::iter::successors(first, |error| (*error).source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn senseless_scenarios_are_refused_with_the_reason() {
    let job = "[[job]]\nname = \"a\"\napplication = { kind = \"compute\", time = \"1ms\" }\n";
    let machine = |rest: &str| format!("[machine]\nprofile = \"plain\"\n{rest}\n{job}");
    let pairs = |procs: &str| {
        let ping_pong = "application = { kind = \"ping-pong\", iterations = 1, message-bytes = 8 }";
        format!(
            "[machine]\nprofile = \"plain\"\nnodes = 2\n[[job]]\nname = \"a\"\n{procs}\n{ping_pong}\n"
        )
    };
    let cases = [
        (machine("nodes = 0"), "of 0 nodes is out of range"),
        (machine("nodes = 4\npes = 0"), "of 0 processing elements are out of range"),
        (
            machine("nodes = 4\nsched = \"gnag\""),
            "use one of fcfs, backfill (easy), easy-sjbf, conservative, sjf, gang, bcs",
        ),
        (machine("nodes = 4\nquantum = \"1us\""), "use 100 us to"),
        (machine("nodes = 4\nquantum = \"soon\""), "write it as"),
        (machine("nodes = 2") + "procs = 9\n", "9 ranks; a partition of the machine has 8"),
        (machine("nodes = 2") + "procs = 0\n", "has no ranks"),
        ("[machine]\nprofile = \"plain\"\nnodes = 2\n".to_owned(), "has no job"),
        (machine("nodes = 2").replace("plain", "cray"), "es40-qsnet, ideal"),
        (
            machine("nodes = 2") + "[[fault]]\nat = \"1ms\"\nkind = \"kill\"\nnode = 3\n",
            "nodes 1 to 2",
        ),
        (machine("nodes = 2") + "[[fault]]\nat = \"1ms\"\nkind = \"kill\"\n", "needs a node"),
        (
            machine("nodes = 2") + "[[fault]]\nat = \"1ms\"\nkind = \"kill-manager\"\nnode = 1\n",
            "leave out `node = 1`",
        ),
        (
            machine("nodes = 2")
                + "[[fault]]\nat = \"1ms\"\nkind = \"kill\"\nnode = 1\npercent = 300\n",
            "percent",
        ),
        (machine("nodes = 2") + "[[fault]]\nat = \"1ms\"\nkind = \"slow\"\nnode = 1\n", "percent"),
        (machine("nodes = 2\nload = { cpu = true }"), "leave `load` out"),
        (pairs("procs = 3"), "one has no partner"),
        (pairs("").replace("nodes = 2", "nodes = 3\npes = 1"), "one has no partner"),
        (machine("nodes = 2") + "[random-faults]\nkills-per-s = -1.0\n", "a rate is"),
    ];
    for (text, why) in cases {
        let said = refusal(&text);
        assert!(said.contains(why), "{said:?} does not say {why:?}, for\n{text}");
    }
}

/// One job. After it has begun, one fault happens that is never repaired.
fn with_one_fault(fault: &str) -> JobReport {
    let text = format!(
        "limit = \"60s\"\n[machine]\nprofile = \"es40-qsnet\"\nnodes = 4\npes = 2\n\
         [[job]]\nname = \"a\"\n\
         application = {{ kind = \"bulk-synchronous\", iterations = 50, compute = \"10ms\" }}\n{fault}"
    );
    let scenario = Scenario::parse(&text).expect("it makes sense");
    let outcome = scenario::run(&scenario, RunOptions::default()).expect("it heals");
    outcome.report.jobs.into_iter().next().expect("a job")
}

#[test]
fn each_fault_of_a_script_has_its_effect_with_nothing_after_it() {
    let undisturbed = with_one_fault("");
    assert_eq!(undisturbed.state, "COMPLETED");
    for kind in ["kill", "cut", "freeze"] {
        let fault = format!("[[fault]]\nat = \"80ms\"\nnode = 3\nkind = \"{kind}\"\n");
        assert_eq!(with_one_fault(&fault).state, "NODE_FAIL", "{kind}");
    }
    for kind in ["\"slow\"\npercent = 900", "\"delay\"\nby = \"5ms\""] {
        let fault = format!("[[fault]]\nat = \"80ms\"\nnode = 3\nkind = {kind}\n");
        let job = with_one_fault(&fault);
        assert_eq!(job.state, "COMPLETED", "{kind}");
        assert!(job.response_ms > undisturbed.response_ms, "{kind}: {:?}", job.response_ms);
    }
}

/// The time in which a job computes for `compute` on a node whose processors are slow for a while.
fn computed_under(compute: &str, faults: &str) -> f64 {
    let text = format!(
        "limit = \"60s\"\n[machine]\nprofile = \"ideal\"\nnodes = 1\npes = 1\n\
         [[job]]\nname = \"a\"\napplication = {{ kind = \"compute\", time = \"{compute}\" }}\n{faults}"
    );
    let scenario = Scenario::parse(&text).expect("it makes sense");
    let outcome = scenario::run(&scenario, RunOptions::default()).expect("it ends");
    let job = outcome.report.jobs.into_iter().next().expect("a job");
    assert_eq!(job.state, "COMPLETED");
    job.response_ms.expect("it is over")
}

#[test]
fn a_slow_node_computes_as_much_slower_as_it_is_and_only_while_it_is() {
    let undisturbed = computed_under("500ms", "");
    // 100 of the job's 500 ms pass before the fault. The next 300 ms do 100 ms of work. 300 ms
    // remain.
    let slow = "[[fault]]\nat = \"100ms\"\nnode = 1\nkind = \"slow\"\npercent = 300\n";
    let healed = "[[fault]]\nat = \"400ms\"\nnode = 1\nkind = \"slow\"\npercent = 100\n";
    let disturbed = computed_under("500ms", &format!("{slow}{healed}"));
    let more = disturbed - undisturbed;
    assert!((more - 200.0).abs() < 2.0, "{disturbed} instead of {undisturbed} ms");
}

#[test]
fn a_run_that_fails_names_the_jobs_that_have_not_ended_and_keeps_its_trace() {
    let text = "limit = \"1s\"\n[machine]\nprofile = \"plain\"\nnodes = 2\npes = 1\nmpl = 1\n\
        [[job]]\nname = \"long\"\napplication = { kind = \"compute\", time = \"5s\" }\n\
        [[job]]\nname = \"behind\"\nat = \"10ms\"\n\
        application = { kind = \"compute\", time = \"1ms\" }\n";
    let scenario = Scenario::parse(text).expect("it makes sense");
    let failure = scenario::run(&scenario, traced(3)).expect_err("it does not end");
    let ScenarioFailure::Run { seed, source, so_far } = failure else { panic!("{failure:?}") };
    assert_eq!(seed, 3);
    let told = source.to_string();
    for word in ["2 jobs have not ended", "job 1 (long), RUNNING: it runs on n[1-2]", "(behind)"] {
        assert!(told.contains(word), "{told:?} does not say {word:?}");
    }
    let states: Vec<_> = so_far.report.jobs.iter().map(|job| job.state.as_str()).collect();
    assert_eq!(states, ["RUNNING", "PENDING"]);
    assert!(so_far.report.jobs[0].slowdown.is_none());
    let trace = so_far.trace.expect("a trace was asked for").to_json();
    assert!(trace.contains("\"name\":\"runs\""), "{trace}");
}

/// A job over all nodes, one of which is killed.
fn with_a_dead_node(limit: &str, further: &str) -> Scenario {
    let text = format!(
        "limit = \"{limit}\"\n[machine]\nprofile = \"ideal\"\nnodes = 4\npes = 2\n\
         [[job]]\nname = \"solver\"\nrequeue = true\n\
         application = {{ kind = \"compute\", time = \"1500ms\" }}\n\
         [[fault]]\nat = \"100ms\"\nkind = \"kill\"\nnode = 2\n{further}"
    );
    Scenario::parse(&text).expect("it makes sense")
}

#[test]
fn a_killed_node_stays_dead_however_long_the_limit_is() {
    for limit in ["60s", "200s"] {
        let failure = scenario::run(&with_a_dead_node(limit, ""), traced(1)).expect_err("it waits");
        let ScenarioFailure::Run { source, so_far, .. } = failure else { panic!("{failure:?}") };
        let told = source.to_string();
        assert!(told.contains("job 1 (solver), PENDING: n2 is down"), "{told}");
        let job = &so_far.report.jobs[0];
        assert_eq!((job.state.as_str(), job.response_ms), ("PENDING", None), "{limit}");
    }
    let rejoin = "[[fault]]\nat = \"300ms\"\nkind = \"rejoin\"\nnode = 2\n";
    let response = |limit| {
        let outcome = scenario::run(&with_a_dead_node(limit, rejoin), traced(1)).expect("a run");
        outcome.report.jobs[0].response_ms
    };
    assert!(response("60s").is_some_and(|response| response < 5_000.0));
    assert_eq!(response("60s"), response("200s"), "the limit decides nothing else");
}
