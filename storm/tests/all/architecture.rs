//! The pages for developers of STORM are true: the table of crates has exactly cargo's
//! dependencies, and every `file.rs:function` exists.
//!
//! The test does not check that a hop of a trace calls the next one.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// The pages that name functions.
const PAGES: [&str; 3] = [ARCHITECTURE, "docs/adding-a-backend.md", "CONTRIBUTING.md"];
const TABLE_HEAD: &str = "| crate | for | depends on |";

/// The crates that each crate needs in a product.
type Arrows = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo describes the workspace")
}

/// The names between backticks.
fn names(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table of crates.
fn documented(page: &str) -> Arrows {
    let table = page.split_once(TABLE_HEAD).expect("the page has the table").1;
    let rows = table.trim_start().lines().skip(1).take_while(|line| line.starts_with('|'));
    let arrows = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [name, _, needed] = cells[..] else { panic!("not three cells: {row}") };
        let name = names(name).first().copied().expect("a crate has a name").to_owned();
        (name, names(needed).into_iter().map(str::to_owned).collect())
    });
    arrows.collect()
}

fn actual(metadata: &Metadata) -> Arrows {
    let packages = metadata.workspace_packages();
    let ours: BTreeSet<String> = packages.iter().map(|package| package.name.to_string()).collect();
    let needed = |package: &Package| {
        let built =
            package.dependencies.iter().filter(|one| one.kind != DependencyKind::Development);
        built.map(|one| one.name.clone()).filter(|name| ours.contains(name)).collect()
    };
    packages.iter().map(|package| (package.name.to_string(), needed(package))).collect()
}

#[test]
fn the_table_of_crates_has_the_dependencies_that_cargo_knows() {
    let (documented, actual) = (documented(&read(ARCHITECTURE)), actual(&metadata()));
    for (name, needed) in &actual {
        assert_eq!(documented.get(name), Some(needed), "the row of {name}");
    }
    assert!(documented.keys().eq(actual.keys()), "the table has a crate that is gone");
}

/// Whether a source file defines the function.
fn defines(source: &str, function: &str) -> bool {
    let definition = format!("fn {function}");
    let mut after =
        source.match_indices(&definition).map(|(at, found)| &source[at + found.len()..]);
    after.any(|rest| rest.starts_with(['(', '<']))
}

#[test]
fn every_function_that_the_pages_name_exists() {
    for page in PAGES {
        let text = read(page);
        let named: Vec<_> =
            names(&text).into_iter().filter_map(|name| name.split_once(".rs:")).collect();
        assert!(!named.is_empty(), "{page} names no function");
        for (file, function) in named {
            let source = read(&format!("{file}.rs"));
            assert!(defines(&source, function), "{page}: {file}.rs has no fn {function}");
        }
    }
}
