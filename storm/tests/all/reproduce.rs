//! `storm reproduce` as users see it: numbers compared with the paper's, checked bounds, and
//! complete files that are the same each time.

use crate::scratch::{STORM, Scratch, stderr, told};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Largest relative deviation of the model from the expected curve.
const FIG_8_PART: f64 = 0.005;

fn reproduce(words: &str) -> Output {
    let mut command = Command::new(STORM);
    command.arg("reproduce").args(words.split_whitespace()).output().expect("storm starts")
}

fn json(words: &str) -> Vec<Value> {
    let done = reproduce(&format!("{words} --json"));
    assert!(done.status.success(), "{words}: {}", told(&done));
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{words}: {error}"))
}

fn ours(exhibit: &Value) -> BTreeMap<&str, f64> {
    let rows = exhibit["rows"].as_array().expect("rows");
    let number = |row: &Value| row["ours"].as_f64().expect("a number");
    rows.iter().map(|row| (row["quantity"].as_str().expect("a name"), number(row))).collect()
}

fn verdicts(exhibit: &Value) -> Vec<&str> {
    let bounds = exhibit["bounds"].as_array().expect("bounds");
    bounds.iter().map(|bound| bound["verdict"].as_str().expect("a word")).collect()
}

/// A file of expected values. `None`, with a message, if there is none.
fn expected(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
    let text = storm_reference::read(&format!("expected/{name}"))?;
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let columns: Vec<String> = lines.next().expect("a header").collect();
    Some(lines.map(|cells| columns.iter().cloned().zip(cells).collect()).collect())
}

#[test]
fn exhibits_of_the_model_alone_keep_their_bounds() {
    let exhibits = json("table3 table5 --check");
    let names: Vec<_> = exhibits.iter().map(|one| one["exhibit"].as_str()).collect();
    assert_eq!(names, [Some("table3"), Some("table5")]);
    assert_eq!(exhibits[0]["rows"].as_array().map(Vec::len), Some(54));
    for exhibit in &exhibits {
        let verdicts = verdicts(exhibit);
        assert!(!verdicts.is_empty() && verdicts.iter().all(|&v| v == "kept"), "{exhibit}");
    }
    assert_eq!(exhibits[0]["rows"][0]["basis"], "predicted");
    assert_eq!(exhibits[1]["rows"][0]["basis"], "calibrated");
    assert_eq!(exhibits[1]["rows"][0]["paper"], 3827.1);
}

#[test]
fn fig_8_is_the_expected_curve_and_larger_machines_are_not_said_to_be_tested() {
    let fig8 = &json("fig8 --check --max-nodes 4")[0];
    let verdicts = verdicts(fig8);
    assert_eq!(verdicts.iter().filter(|&&v| v == "untested").count(), 6, "{verdicts:?}");
    assert!(!verdicts.contains(&"missed"), "{verdicts:?}");
    let Some(expected) = expected("fig8.csv") else { return };
    let ours = ours(fig8);
    assert!(!expected.is_empty());
    for row in expected {
        for (curve, column) in [("ES40", "t_launch_es40_ms"), ("ideal", "t_launch_ideal_ms")] {
            let ours = ours[&*format!("{curve}, {} nodes", row["nodes"])];
            let theirs: f64 = row[column].parse().expect("a number");
            assert!((ours / theirs - 1.0).abs() <= FIG_8_PART, "{row:?}: {ours}");
        }
    }
}

#[test]
fn an_unknown_figure_is_refused_with_those_that_there_are() {
    let done = reproduce("fig6");
    assert_eq!(done.status.code(), Some(2), "{}", told(&done));
    for name in ["fig6", "table3", "fig2d", "fig9", "all"] {
        assert!(stderr(&done).contains(name), "{}", told(&done));
    }
    for words in ["", "fig8 --max-nodes 0", "fig3 --program x"] {
        assert_eq!(reproduce(words).status.code(), Some(2), "{words}");
    }
}

#[test]
fn impossible_requests_are_refused_before_the_simulation() {
    for (words, reason) in [
        ("all --output /proc/no/such/place", "cannot be written"),
        ("all --live --program ./no-such-program", "does not exist"),
    ] {
        let done = reproduce(words);
        assert!(!done.status.success() && done.stdout.is_empty(), "{}", told(&done));
        assert!(
            stderr(&done).contains(reason) && stderr(&done).contains("try:"),
            "{}",
            told(&done)
        );
    }
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("it is there");
    let content = |path: PathBuf| std::fs::read(path).expect("it can be read");
    let named = entries.map(|entry| {
        let entry = entry.expect("it can be listed");
        (entry.file_name().to_string_lossy().into_owned(), content(entry.path()))
    });
    named.collect()
}

#[test]
fn the_files_are_whole_and_the_same_each_time() {
    let scratch = Scratch::make();
    let words = "reproduce table3 table5 fig7 fig8 fig9 --max-nodes 4";
    scratch.prints(&format!("{words} --output first"));
    scratch.prints(&format!("{words} --output deep/second"));
    let first = files(&scratch.work().join("first"));
    let names: Vec<_> = first.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "bounds.csv",
            "fig7.csv",
            "fig7.svg",
            "fig8.csv",
            "fig8.svg",
            "fig9.csv",
            "fig9.svg",
            "report.html",
            "table3.csv",
            "table3.svg",
            "table5.csv",
        ]
    );
    assert_eq!(first, files(&scratch.work().join("deep/second")));
    let text = |name: &str| String::from_utf8(first[name].clone()).expect("it is text");
    let table = text("table3.csv");
    assert_eq!(table.lines().count(), 55);
    assert!(table.starts_with("quantity,ours,paper,error_percent,unit,by,basis,source\n"));
    assert!(table.contains("\"4096 nodes, 90 m\",145."), "{table}");
    assert!(text("bounds.csv").contains("not tested"));
    for name in names.iter().filter(|name| name.ends_with(".svg")) {
        assert_well_formed(&text(name));
    }
    let report = text("report.html");
    assert!(report.starts_with("<!DOCTYPE html>") && report.contains("id=\"table5\""));
    for tag in ["html", "body", "section", "table", "tr", "td", "svg", "p", "figure"] {
        let count = |pattern: &str| report.matches(pattern).count();
        let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        assert!(opened > 0, "{tag}");
    }
}

/// Checks that every element is closed, in order.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split_whitespace().next().expect("a tag has a name");
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{xml}");
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
