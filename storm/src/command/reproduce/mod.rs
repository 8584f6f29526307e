//! `reproduce`: the paper's tables and figures, compared with the paper's values.
//!
//! `storm_sim::reproduction` does the simulation. This module shows, draws, writes and judges its
//! results, and measures on this host if requested.

mod comma_separated;
mod files;
mod live;
mod plot;
mod report;

use super::print;
use super::progress::Steps;
use crate::attach::Interrupts;
use crate::cli::ReproduceOptions;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use files::Directory;
use serde::Serialize;
use std::cell::Cell;
use std::time::Instant;
use storm_sim::figures::FigureError;
use storm_sim::reproduction::{Bound, Effort, Laboratory, Reproduction, Row, Verdict, reproduce};

/// The failure's word for programs: a bound is missed.
const CODE_BOUND: &str = "bound";

/// A table or figure, with the time that it took.
#[derive(Debug, Serialize)]
struct Reproduced {
    #[serde(flatten)]
    what: Reproduction,
    /// Seconds of real time, without simulations that an earlier table or figure has done.
    real_s: f64,
}

/// `reproduce`.
pub(super) async fn run(
    options: &ReproduceOptions,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    // Checked first, as the simulation takes minutes.
    let directory = options.output.as_deref().map(Directory::open).transpose()?;
    let program = options.live.then(|| live::program(options.program.as_deref())).transpose()?;
    let mut reproduced = simulate(options, silent)?;
    // From here on, an interruption ends clusters and leaves no partial file.
    let mut interrupts = Interrupts::listen()?;
    if let Some(program) = program {
        live::add(&mut reproduced, &program, &mut interrupts, silent).await?;
    }
    if let Some(directory) = &directory {
        files::write(directory, &reproduced)?;
    }
    let shown = sheet(&reproduced);
    let shown = if options.check { shown.note(Tally::of(&reproduced).to_string()) } else { shown };
    print(&output.sheet(&shown))?;
    if options.check { verdict(&reproduced) } else { Ok(0) }
}

fn simulate(options: &ReproduceOptions, silent: bool) -> Result<Vec<Reproduced>, Failure> {
    let exhibits = options.exhibits();
    let steps = Steps::new(silent, exhibits.len());
    let current = Cell::new("");
    let mut watch = |what: &str| steps.now(&format!("{}: {what}", current.get()));
    let effort = Effort { max_nodes: options.max_nodes, seed: options.seed };
    let mut laboratory = Laboratory::new(effort, &mut watch);
    let mut reproduced = Vec::with_capacity(exhibits.len());
    for exhibit in exhibits {
        steps.next(exhibit.name());
        current.set(exhibit.name());
        let begun = Instant::now();
        let what = reproduce(exhibit, &mut laboratory)?;
        reproduced.push(Reproduced { what, real_s: begun.elapsed().as_secs_f64() });
    }
    Ok(reproduced)
}

/// Number of bounds with each verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    held: usize,
    missed: usize,
    not_tested: usize,
}

impl Tally {
    fn of(reproduced: &[Reproduced]) -> Tally {
        let count = |wanted: Verdict| {
            let bounds = reproduced.iter().flat_map(|one| &one.what.bounds);
            bounds.filter(|bound| bound.verdict == wanted).count()
        };
        Tally {
            held: count(Verdict::Kept),
            missed: count(Verdict::Missed),
            not_tested: count(Verdict::Untested),
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { held, missed, not_tested } = self;
        let tested = held + missed;
        write!(
            f,
            "Bounds: {tested} tested, {held} hold, {missed} missed; {not_tested} not tested"
        )?;
        if *not_tested > 0 {
            f.write_str(" (see their VERDICT; --max-nodes leaves larger machines out)")?;
        }
        if tested == 0 { f.write_str(": this check shows nothing") } else { Ok(()) }
    }
}

/// Success, or a failure with the missed bounds.
fn verdict(reproduced: &[Reproduced]) -> Result<u8, Failure> {
    let missed: Vec<String> = reproduced
        .iter()
        .flat_map(|one| one.what.bounds.iter().filter_map(|b| miss(one, b)))
        .collect();
    if missed.is_empty() {
        return Ok(0);
    }
    let count = missed.len();
    let bounds = if count == 1 { "bound is" } else { "bounds are" };
    let mut failure = Failure::new(CODE_BOUND, format!("{count} {bounds} missed"));
    failure.causes = vec![missed.join("; ")];
    Err(failure.hint("another --seed tells whether it is chance; --output shows the curves"))
}

fn miss(one: &Reproduced, bound: &Bound) -> Option<String> {
    let Bound { name, wanted, found, verdict } = bound;
    let missed = *verdict == Verdict::Missed;
    missed.then(|| format!("{}: {name}: {found}, wanted {wanted}", one.what.exhibit))
}

fn sheet(reproduced: &[Reproduced]) -> Sheet {
    reproduced.iter().fold(Sheet::new(&reproduced), |sheet, one| {
        let Reproduction { title, rows, bounds, notes, .. } = &one.what;
        let columns = ["NUMBER", ">OURS", ">PAPER", "UNIT", ">ERROR %", "BY", "WORTH"];
        let mut sheet = sheet.note(*title).table(columns, rows.iter().map(cells));
        if !bounds.is_empty() {
            let cells = bounds.iter().map(|bound| {
                let Bound { name, wanted, found, verdict } = bound;
                vec![name.clone(), wanted.clone(), found.clone(), verdict.to_string()]
            });
            sheet = sheet.table(["BOUND", "WANTED", ">FOUND", "VERDICT"], cells);
        }
        notes.iter().fold(sheet, |sheet, note| sheet.note(note.as_str()))
    })
}

fn cells(row: &Row) -> Vec<String> {
    let Row { quantity, ours, paper, error_percent, unit, by, basis, .. } = row;
    let optional = |value: &Option<f64>| value.map(number).unwrap_or_default();
    let error = error_percent.map(|percent| format!("{percent:+.2}")).unwrap_or_default();
    let (by, basis) = (by.to_string(), basis.to_string());
    vec![quantity.clone(), optional(ours), optional(paper), (*unit).to_owned(), error, by, basis]
}

/// A number with as many digits as users compare.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 10_000.0 => 0,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

impl From<FigureError> for Failure {
    fn from(error: FigureError) -> Failure {
        Failure::of("simulation", &error).hint("with the same --seed it fails again: report it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_sim::reproduction::Exhibit;

    fn table_3() -> Reproduced {
        let mut watch = |_: &str| {};
        let mut laboratory = Laboratory::new(Effort { max_nodes: 1, seed: 1 }, &mut watch);
        let what = reproduce(Exhibit::Table3, &mut laboratory).expect("it is computed");
        Reproduced { what, real_s: 0.0 }
    }

    #[test]
    fn a_missed_bound_fails_the_check_and_has_its_name() {
        let mut reproduced = vec![table_3()];
        assert_eq!(verdict(&reproduced), Ok(0));
        reproduced[0].what.bounds.push(Bound::at_most("slowdown", Some(3.0), 2.0, "%"));
        reproduced[0].what.bounds.push(Bound::at_most("not simulated", None, 2.0, "%"));
        let tally = Tally::of(&reproduced);
        assert_eq!((tally.missed, tally.not_tested), (1, 1));
        assert!(tally.to_string().contains("1 missed; 1 not tested"), "{tally}");
        let failure = verdict(&reproduced).expect_err("it is missed");
        assert_eq!(failure.message, "1 bound is missed");
        assert_eq!(failure.causes, ["table3: slowdown: 3 %, wanted at most 2 %"]);
        assert_ne!(failure.exit, 0);
    }
}
