//! sbatch(1): submits a batch job, as `storm batch` does.

use super::asking::{named_cluster, place, refused_submission, refused_test};
use super::complaint::Complaint;
use super::job_facts::JobReader;
use super::node_counts::fitted;
use super::source::Source;
use crate::cli::JobOptions;
use crate::command::batch::merged as merged_words;
use crate::command::job::{hand_in, tried_out};
use crate::command::wait::status_at_end;
use crate::command::{note, print};
use crate::job_request::{ScriptLines, ScriptText, note_on_mail, replace, size, words_of};
use jiff::tz::TimeZone;
use std::ffi::OsString;
use storm_mm::api::{JobFilter, Prospect};
use storm_rm::JobId;
use storm_slurm::Verb;
use storm_slurm::options::{CommandLine, Given, merged, of_variables};
use storm_slurm::view::ExitCode;

/// The files of output if no option names one (sbatch(1), --output).
const OUTPUT: &str = "slurm-%j.out";
const ARRAY_OUTPUT: &str = "slurm-%A_%a.out";

/// Beyond it, a shell's status may tell a signal.
const SIGNALLED: u8 = 128;

pub(super) async fn run(typed: &CommandLine) -> Result<u8, Complaint> {
    let (script, name) = script(typed)?;
    let lines = ScriptLines::of(&script).map_err(|failure| {
        // The option is named with its line; Slurm's own text has neither.
        Complaint::from(failure).exit(ScriptLines::status_of_sbatch(&script))
    })?;
    refuse_both_memories(&lines.slurm)?;
    refuse_both_memories(&typed.options)?;
    let variables = of_variables(Verb::Sbatch, |name| std::env::var_os(name));
    let variables = variables.map_err(|error| Complaint::error(error.to_string()))?;
    let later = merged([variables, typed.options.clone()]);
    let all = merged([lines.slurm.clone(), later.clone()]);
    let all = CommandLine { options: all, operands: typed.operands.clone() };
    let place = place()?;
    let cluster = named_cluster(&all, &place).await?;
    let options = job_options(&lines, &CommandLine { options: later, ..all.clone() }, &all)?;
    let named = options.name.clone().unwrap_or(name);
    let options = JobOptions { script: Some(script), once: true, name: Some(named), ..options };
    let mut warn = |text: &str| note(&format!("sbatch: {text}\n"));
    let options = fitted(options, &mut warn);
    if all.has("test-only") {
        let prospect = tried_out(place, &options, &mut warn).await.map_err(refused_test)?;
        let (procs, _) = size(&options)?;
        let cpus = procs.saturating_mul(options.cpus_per_task.unwrap_or(1));
        note(&format!("sbatch: {}\n", told(&prospect, cpus)));
        return Ok(0);
    }
    if let Some(text) = note_on_mail(&all.options).filter(|_| !all.has("quiet")) {
        warn(text);
    }
    let submitted = hand_in(place, &options, true, &mut warn).await;
    let (manager, job) = submitted.map_err(|failure| refused_submission(failure, "Batch job"))?;
    if !all.has("quiet") || all.has("parsable") {
        let text = match (all.has("parsable"), cluster) {
            (true, Some(cluster)) => format!("{job};{cluster}\n"),
            (true, None) => format!("{job}\n"),
            (false, Some(cluster)) => format!("Submitted batch job {job} on cluster {cluster}\n"),
            (false, None) => format!("Submitted batch job {job}\n"),
        };
        print(&text)?;
    }
    if all.has("wait") {
        return status_of_wait(job, status_at_end(&manager, job).await?).await;
    }
    Ok(0)
}

/// The status that `--wait` gives for a job or an array, whose highest status is this one in a
/// shell: for Slurm a job that a signal ended has status 1.
async fn status_of_wait(job: JobId, status: u8) -> Result<u8, Complaint> {
    if status <= SIGNALLED {
        return Ok(status);
    }
    let filter =
        JobFilter { jobs: vec![job], history: true, attributes: true, ..Default::default() };
    let jobs = Source::open().await?.jobs(filter).await?;
    let mut reader = JobReader::default();
    let told = jobs.iter().map(|view| match reader.facts(view).exit {
        ExitCode { code, signal: 0 } => code,
        ExitCode { .. } => 1,
    });
    Ok(told.max().unwrap_or(status))
}

/// When a job would start, in Slurm's words. Its nodes are not known before it has some.
fn told(prospect: &Prospect, cpus: u32) -> String {
    let Prospect { job, partition, start } = prospect;
    match start {
        Some(start) => {
            let start = start.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S");
            format!(
                "Job {job} to start at {start} using {cpus} processors on nodes (null) in \
                 partition {partition}"
            )
        }
        None => format!(
            "Job {job} would wait in partition {partition}: `storm explain` tells of a job that \
             is submitted when it should start"
        ),
    }
}

/// The script, and the name of its job if none is given.
fn script(line: &CommandLine) -> Result<(ScriptText, String), Complaint> {
    if let Some(command) = line.value("wrap") {
        if !line.operands.is_empty() {
            return Err(Complaint::error("Script arguments not permitted with --wrap option"));
        }
        let mut contents = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n".to_vec();
        contents.extend_from_slice(command.as_encoded_bytes());
        contents.push(b'\n');
        return Ok((
            ScriptText { name: "wrap".to_owned(), path: None, contents },
            "wrap".to_owned(),
        ));
    }
    let script = match line.operands.first() {
        None => ScriptText::of_input()?,
        Some(typed) => {
            let found = ScriptText::unchecked(typed).map_err(|failure| {
                Complaint::error(format!("Unable to open file {}", typed.display()))
                    .and_told(failure.message)
            });
            found?.0
        }
    };
    let name = if line.operands.is_empty() { "sbatch".to_owned() } else { script.name.clone() };
    Ok((checked(script)?, name))
}

/// Refuses what is no script, in Slurm's words.
fn checked(script: ScriptText) -> Result<ScriptText, Complaint> {
    let contents = &script.contents;
    if contents.is_empty() {
        return Err(Complaint::error("Batch script is empty!"));
    }
    if contents.iter().all(u8::is_ascii_whitespace) {
        return Err(Complaint::error("Batch script contains only whitespace!"));
    }
    if !contents.starts_with(b"#!") {
        return Err(Complaint::error("This does not look like a batch script.  The first")
            .and_error("line must start with #! followed by the path to an interpreter.")
            .and_error("For instance: #!/bin/sh"));
    }
    if contents.contains(&0) {
        return Err(Complaint::error(
            "The SLURM controller does not allow scripts that contain a NULL character '\\0'.",
        ));
    }
    if contents.windows(2).any(|pair| pair == b"\r\n") {
        return Err(Complaint::error("Batch script contains DOS line breaks (\\r\\n)")
            .and_error("instead of expected UNIX line breaks (\\n)."));
    }
    Ok(script)
}

/// The options of the job. `later` are the options of the command line and the variables, which
/// count before the lines of the script; `all` are those together.
fn job_options(
    lines: &ScriptLines,
    later: &CommandLine,
    all: &CommandLine,
) -> Result<JobOptions, Complaint> {
    let of_lines = all.options.iter().filter(|given| !later.options.contains(given));
    let mut further = words_of(&of_lines.cloned().collect::<Vec<_>>());
    let counts = |option: &&Given| {
        // Without a dependency it means nothing, and `storm batch` asks for one.
        !option.option.is("kill-on-invalid-dep") || all.has("dependency")
    };
    let typed: Vec<_> = later.options.iter().filter(counts).cloned().collect();
    let typed = words_of(&typed);
    let mut ours = lines.ours.clone();
    replace(&mut further, &ours);
    replace(&mut ours, &typed);
    replace(&mut further, &typed);
    let before = ["storm", "batch"].into_iter().map(OsString::from);
    let script = all.operands.first().cloned().unwrap_or_else(|| "script".into());
    let words: Vec<OsString> = before
        .chain(typed.into_iter().map(OsString::from))
        .chain(["--".into(), script])
        .chain(all.operands.iter().skip(1).cloned())
        .collect();
    let further = further.into_iter().chain(ours).collect();
    let mut options = merged_words(&words, further)?;
    options.wait = false;
    if options.output.is_none() {
        let array = options.needs.array.is_some();
        options.output = Some(if array { ARRAY_OUTPUT } else { OUTPUT }.into());
    }
    Ok(options)
}

/// Refuses `--mem` beside `--mem-per-cpu`, in Slurm's words. Of two sources the later counts.
pub(super) fn refuse_both_memories(given: &[Given]) -> Result<(), Complaint> {
    let has = |name: &str| given.iter().any(|one| one.option.is(name));
    match has("mem") && has("mem-per-cpu") {
        true => Err(Complaint::told(
            "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
        )),
        false => Ok(()),
    }
}
