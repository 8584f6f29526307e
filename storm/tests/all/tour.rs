//! The README's tour: runs every command of it, in order.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands of the fenced `console` blocks: the lines that begin with `$ `.
fn tour() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = fs::read_to_string(readme).expect("the README");
    let mut commands = Vec::new();
    let mut in_console = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) => in_console = language == "console",
            None if in_console => commands.extend(line.strip_prefix("$ ").map(str::to_owned)),
            None => {}
        }
    }
    commands
}

fn binary(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_storm")).with_file_name(name);
    assert!(path.exists(), "{} is missing: cargo build -p {name}", path.display());
    path
}

#[test]
fn every_command_of_the_tour_works() {
    let commands = tour();
    assert!(commands.len() >= 5, "the README has a tour: {commands:?}");
    // The state after a release build in the repository's directory, with nothing of it on PATH.
    let place = tempfile::tempdir().expect("a directory");
    let release = place.path().join("target/release");
    fs::create_dir_all(&release).expect("made");
    for program in ["storm", "sweep3d"] {
        symlink(binary(program), release.join(program)).expect("linked");
    }
    let run = |command: &str| {
        Command::new("sh")
            .args(["-c", command])
            .current_dir(place.path())
            .env("XDG_RUNTIME_DIR", place.path())
            .env_remove("STORM_SOCKET")
            .env_remove("STORM_MANAGER")
            .output()
            .expect("a shell")
    };
    // Variables that a command exports exist for later commands.
    let mut exported = String::new();
    for command in &commands {
        if command.starts_with("export ") {
            exported += &format!("{command}\n");
        }
        let done = run(&format!("{exported}{command}"));
        if !done.status.success() {
            run(&format!("{exported}storm down"));
            panic!(
                "`{command}` ended with {}\n{}{}",
                done.status,
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            );
        }
    }
}
