//! `batch`, and `submit` of a script with lines for a batch job.

use super::{message_and_hint, note};
use crate::cli::{Cli, Command, JobOptions};
use crate::failure::{EXIT_USAGE, Failure};
use crate::job_request::{
    STANDARD_INPUT, ScriptLines, ScriptText, note_on_mail, replace, standard_input,
    words_of_variables,
};
use crate::output::Output;
use std::ffi::OsString;
use std::path::Path;

/// The options of `batch`, with those of the script and of Slurm's variables.
pub(super) fn of_batch(options: JobOptions, output: &dyn Output) -> Result<JobOptions, Failure> {
    if options.no_bcast {
        return Err(Failure::new("usage", "a batch script is always copied when it is submitted")
            .hint("leave --no-bcast out; --wrap PATH runs a script that its node has")
            .exit(EXIT_USAGE));
    }
    let script = match (&options.wrap, options.program.first()) {
        (Some(_), _) => return with_lines(options, None, &ScriptLines::default()),
        (None, Some(typed)) => ScriptText::read(typed)?,
        (None, None) => {
            return Err(Failure::new("usage", "a script is needed").exit(EXIT_USAGE));
        }
    };
    let lines = ScriptLines::of(&script)?;
    note_mail(&lines, output);
    with_lines(options, Some(script), &lines)
}

fn note_mail(lines: &ScriptLines, output: &dyn Output) {
    if let Some(text) = note_on_mail(&lines.slurm) {
        note(&output.note(text));
    }
}

/// The options of `submit`. A script with lines for a batch job makes it one, and a note says so.
pub(super) fn of_submit(options: JobOptions, output: &dyn Output) -> Result<JobOptions, Failure> {
    let typed = options.program.first().filter(|_| !options.no_bcast && options.wrap.is_none());
    let script = match typed {
        // Standard input can be read only once.
        Some(typed) if typed == STANDARD_INPUT => Some(standard_input(&options)?),
        Some(typed) => ScriptText::of_file(Path::new(typed)),
        None => None,
    };
    let shown = typed.map(|typed| typed.display().to_string()).unwrap_or_default();
    let Some(script) = script.filter(|script| shown == STANDARD_INPUT || script.has_lines()) else {
        return Ok(options);
    };
    if !script.has_lines() {
        return Ok(JobOptions { script: Some(script), ..options });
    }
    let script = script.checked(&shown, &format!("sed -i 's/\\r$//' {shown}"))?;
    let lines = ScriptLines::of(&script)?;
    note(&output.note(&format!(
        "{} has {} lines: it runs once, on the first node, as by `storm batch`",
        script.name,
        lines.markers.join(" and ")
    )));
    note_mail(&lines, output);
    with_lines(options, Some(script), &lines)
}

/// The command line again, with options of lower precedence.
fn with_lines(
    options: JobOptions,
    script: Option<ScriptText>,
    lines: &ScriptLines,
) -> Result<JobOptions, Failure> {
    let of_variables = words_of_variables(|name| std::env::var_os(name))?;
    let mut further = lines.words();
    replace(&mut further, &of_variables);
    further.extend(of_variables);
    if further.is_empty() {
        return Ok(JobOptions { script, once: true, ..options });
    }
    if options.mem.is_some() || options.mem_per_cpu.is_some() {
        replace(&mut further, &["--mem".to_owned()]);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let merged = merged(&words, further).map_err(|failure| {
        let message = format!("with the lines of the script: {}", failure.message);
        Failure { message, ..failure }
    })?;
    Ok(JobOptions { script, once: true, ..merged })
}

/// The options of a command line of a verb that makes a job, with further options, each of
/// which counts if the command line does not have it.
pub(crate) fn merged(words: &[OsString], further: Vec<String>) -> Result<JobOptions, Failure> {
    let cli = Cli::with_further(words, further.into_iter().map(OsString::from));
    let cli = cli.map_err(|error| {
        let (message, hint) = message_and_hint(&error.render().to_string());
        Failure { hint, ..Failure::new("usage", message).exit(EXIT_USAGE) }
    })?;
    let options = match cli.command {
        Command::Batch(batch) => batch.job,
        Command::Submit(job) | Command::Run(job) => *job,
        _ => return Err(Failure::new("usage", "these are no options of a job").exit(EXIT_USAGE)),
    };
    Ok(options.with_trailing_sched().0)
}
