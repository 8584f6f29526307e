//! The program has every command and option that the user guide names.

use super::Cli;
use crate::config::TimeoutConfig;
use crate::duration::parse_time;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;
use std::time::Duration;

const GUIDE: &str = include_str!("../../../docs/user-guide.md");
/// Slurm options that the guide names to say that STORM lacks them.
const OF_SLURM: &[&str] = &[
    "contiguous",
    "gres",
    "hint",
    "mail-type",
    "parsable",
    "pty",
    "switches",
    "test-only",
    "threads-per-core",
    "verbose",
];

/// Texts between backticks, and the lines of blocks of shell commands.
fn commands() -> Vec<String> {
    let mut commands = Vec::new();
    let mut block: Option<bool> = None;
    for line in GUIDE.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language == "sh") };
            continue;
        }
        match block {
            Some(true) => commands.extend(line.split('|').map(str::to_owned)),
            Some(false) => {}
            None => commands.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    let is_ours = |command: &str| {
        let rest = command.trim_start().strip_prefix("storm ");
        rest.is_some_and(|rest| !rest.starts_with("COMMAND"))
    };
    commands.retain(|command| is_ours(command));
    commands
}

/// The words of a command without quotes, up to the first operator of the shell.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for sign in command.trim().chars() {
        match sign {
            '\'' => quoted = !quoted,
            '|' | ';' | '>' | '<' | '&' | '#' | '\\' if !quoted => break,
            sign if sign.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            sign => word.push(sign),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty() && word != "..." && !word.starts_with('['));
    words
}

#[test]
fn every_command_of_the_guide_is_understood() {
    let commands = commands();
    assert!(commands.len() > 50, "only {} are found", commands.len());
    let mut unknown = Vec::new();
    for command in commands {
        // Placeholders are not valid values, so that only errors about names count.
        let kind = Cli::try_parse_from(words(&command)).err().map(|error| error.kind());
        if matches!(kind, Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)) {
            unknown.push(command);
        }
    }
    assert!(unknown.is_empty(), "the guide names what is not there: {unknown:#?}");
}

fn options_of(command: &clap::Command, options: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        options.extend(argument.get_long().map(str::to_owned));
        options.extend(argument.get_all_aliases().into_iter().flatten().map(str::to_owned));
    }
    command.get_subcommands().for_each(|below| options_of(below, options));
}

#[test]
fn every_option_of_the_guide_is_one_of_some_command() {
    let mut options = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
    options_of(&Cli::command(), &mut options);
    let is_of_name = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-';
    let named = GUIDE.match_indices("--").filter_map(|(at, _)| {
        let before = GUIDE[..at].chars().next_back();
        let name: String = GUIDE[at + 2..].chars().take_while(|sign| is_of_name(*sign)).collect();
        let begins = before.is_none_or(|sign| !is_of_name(sign) && sign != '|' && sign != '_');
        (begins && name.starts_with(|sign: char| sign.is_ascii_lowercase())).then_some(name)
    });
    let unknown: BTreeSet<String> = named
        .filter(|name| !options.contains(name) && !OF_SLURM.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "the guide names options that no command has: {unknown:?}");
}

/// The defaults of a row of a table, in the order of the row's keys.
fn defaults(keys: &str) -> Vec<&'static str> {
    let row = GUIDE.lines().find_map(|line| line.strip_prefix(&format!("| {keys} | ")));
    let cell = row.and_then(|row| row.split(" | ").next());
    let cell = cell.unwrap_or_else(|| panic!("the guide has no row for {keys}"));
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_default_times_of_the_guide_are_those_of_the_program() {
    let times = TimeoutConfig::default();
    let rows: [(&str, &[Duration]); 4] = [
        ("`[[partitions]]` `quantum`, `params`, `default`", &[storm_sched::DEFAULT_QUANTUM]),
        ("`[timeouts]` `heartbeat`, `node-dead`", &[times.heartbeat(), times.node_dead()]),
        ("`[timeouts]` `kill-grace`", &[times.kill_grace()]),
        ("`[timeouts]` `node-return`", &[times.node_return()]),
    ];
    for (keys, expected) in rows {
        let written: Vec<_> =
            defaults(keys).into_iter().map(parse_time).take(expected.len()).collect();
        let expected: Vec<_> = expected.iter().copied().map(Ok).collect();
        assert_eq!(written, expected, "{keys}");
    }
}
