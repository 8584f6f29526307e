//! The packages of the project. Each comes from crates.io or from this repository, under a licence
//! that `deny.toml` allows. cargo-deny, where it is installed, checks more; this test runs
//! everywhere.

use cargo_metadata::{Metadata, MetadataCommand, Package};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};
use std::path::Path;

/// The needed parts of `deny.toml`.
#[derive(Deserialize)]
struct Deny {
    graph: Graph,
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn deny() -> Deny {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let text = std::fs::read_to_string(&path).expect("deny.toml can be read");
    toml::from_str(&text).expect("deny.toml is TOML")
}

/// The packages for this kind of machine, which have all been fetched already.
fn packages(deny: &Deny) -> Metadata {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    assert!(deny.graph.targets.contains(&target), "deny.toml does not name {target}");
    let options = ["--locked", "--offline", "--filter-platform", &target].map(String::from);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(options)
        .exec()
        .expect("cargo says what there is (after `cargo fetch`, or a build of the workspace)")
}

/// Why the package's licence is refused.
fn refusal(package: &Package, allowed: &[LicenseReq]) -> Option<String> {
    let name = format!("{} {}", package.name, package.version);
    let Some(licence) = &package.license else { return Some(format!("{name}: names no licence")) };
    // Older packages write MIT/Apache-2.0.
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(terms) if terms.evaluate(|wanted| allowed.contains(wanted)) => None,
        Ok(_) => Some(format!("{name}: {licence} is not allowed")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

#[test]
fn everything_is_under_a_licence_that_is_allowed() {
    let deny = deny();
    let parse = |name: &String| match Expression::parse(name) {
        Ok(terms) => terms.requirements().next().expect("a licence").req.clone(),
        Err(error) => panic!("deny.toml: {error}"),
    };
    let allowed: Vec<LicenseReq> = deny.licenses.allow.iter().map(parse).collect();
    let metadata = packages(&deny);
    assert!(metadata.packages.len() > metadata.workspace_members.len());
    let refused: Vec<_> =
        metadata.packages.iter().filter_map(|package| refusal(package, &allowed)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn everything_comes_from_crates_io_or_from_here() {
    let metadata = packages(&deny());
    for package in &metadata.packages {
        match &package.source {
            Some(source) => assert_eq!(source.repr, CRATES_IO, "{}", package.name),
            None => assert!(metadata.workspace_members.contains(&package.id), "{}", package.name),
        }
    }
}

#[test]
fn no_dependency_takes_any_version() {
    let metadata = packages(&deny());
    for package in metadata.workspace_packages() {
        for wanted in &package.dependencies {
            // For packages of this repository, the local one counts.
            let is_any = wanted.path.is_none() && wanted.req.to_string() == "*";
            assert!(!is_any, "{} takes any version of {}", package.name, wanted.name);
        }
    }
}
