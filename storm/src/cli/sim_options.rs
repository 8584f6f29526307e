//! The options of `storm sim`.

use super::count::{parse_count, whole};
use clap::Args;
use std::ops::Range;
use std::path::PathBuf;

const SCENARIO: &str = "\
A scenario, in TOML (docs/user-guide.md, Simulating a machine, has every field):
  limit = \"60s\"                  virtual time in which everything must be over
  [machine]                      profile, nodes, pes, sched, quantum, mpl, load, ...
  [[job]]                        name, at, copies, procs, binary-mib, requeue, application
    application.kind             compute, independent, wavefront, bulk-synchronous,
                                 ping-pong
  [generated-jobs]               jobs drawn from the seed
  [[fault]]                      at, node, kind
    kind                         kill, freeze, thaw, rejoin, cut, mend, delay, lossy, slow,
                                 fill-disk, free-disk, kill-manager, restart-manager
  [random-faults]                faults drawn from the seed

Example, to be typed as it is: a job on all of 16 nodes, of which one dies while it runs:
cat > death.toml <<'END'
limit = \"60s\"
[machine]
profile = \"ideal\"
nodes = 16
pes = 2
[[job]]
name = \"solver\"
requeue = true
application = { kind = \"compute\", time = \"200ms\" }
[[fault]]
at = \"100ms\"
kind = \"kill\"
node = 7
[[fault]]
at = \"300ms\"
kind = \"rejoin\"
node = 7
END
storm sim death.toml
storm sim death.toml --seeds 0..20

Exit status: 0 all is well; 1 the scenario is refused, a job has not ended, or an
invariant does not hold; 130 interrupted.";

/// Simulates a machine.
#[derive(Debug, Args)]
#[command(after_help = SCENARIO)]
pub(crate) struct SimOptions {
    /// The scenario: a machine, its jobs and its faults, in TOML
    #[arg(value_name = "FILE.toml", required_unless_present = "show_profile")]
    pub(crate) scenario: Option<PathBuf>,
    /// Use this machine profile, a name or a file, instead of the scenario's
    #[arg(long, value_name = "P")]
    pub(crate) profile: Option<String>,
    /// Print a machine profile, to be changed and given to --profile, instead of simulating
    #[arg(long, value_name = "P",
          conflicts_with_all = ["scenario", "seed", "seeds", "nodes", "trace", "profile"])]
    pub(crate) show_profile: Option<String>,
    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub(crate) seed: Option<u64>,
    /// Run every seed from A to B-1 and name those that fail; Ctrl-C ends the runs and prints the
    /// results so far
    #[arg(long, value_name = "A..B", value_parser = seeds, conflicts_with_all = ["seed", "trace"])]
    pub(crate) seeds: Option<Range<u64>>,
    /// Use this many nodes instead of the scenario's
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) nodes: Option<u32>,
    /// Write a trace for Perfetto or Chrome, even if the run fails; `-` is standard output, and the
    /// report then goes to standard error
    #[arg(long, value_name = "OUT.json")]
    pub(crate) trace: Option<PathBuf>,
}

/// Reads `A..B`.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text
        .split_once("..")
        .and_then(|(first, end)| Some(first.parse::<u64>().ok()?..end.parse::<u64>().ok()?));
    match parsed {
        Some(seeds) if !seeds.is_empty() => Ok(seeds),
        Some(_) => Err("there is no seed from A to B-1: write the smaller number first".to_owned()),
        None => Err("write two numbers, for example 0..1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_two_numbers_the_smaller_first() {
        assert_eq!(seeds("3..7"), Ok(3..7));
        for text in ["7", "7..3", "a..b", "3-7", ".."] {
            assert!(seeds(text).is_err(), "{text}");
        }
    }
}
