//! The verbs: each asks a manager, or starts one, and prints the answer.

pub(crate) mod batch;
mod changing;
mod cluster;
mod completion;
mod fabric;
pub(crate) mod job;
mod key;
pub(crate) mod listing;
mod machine_profile;
pub(crate) mod misunderstood;
mod model;
pub(crate) mod naming;
mod nap;
mod on_cluster;
mod partition;
mod pmix;
mod progress;
mod replay;
mod reproduce;
mod reservation;
mod service;
mod sim;
pub(crate) mod step;
pub(crate) mod wait;
mod workload;

use crate::cli::{Cli, ClusterOptions, Command, DisplayOptions, JobOptions, with_tip};
use crate::daemon::{run_mm, run_nm, run_relay};
use crate::event_loop::event_loop;
use crate::failure::{EXIT_USAGE, Failure};
use crate::job_request::STANDARD_INPUT;
use crate::local_cluster::StateDir;
use crate::output::{self, Output};
use crate::slurm;
use crate::standard_streams::StandardOutput;
use crate::target::Choices;
use std::io;
use storm_mm::api::Client;

/// Runs the command line, and returns the exit status.
pub(crate) fn run(cli: Cli) -> u8 {
    let output = output::chosen(cli.display);
    let DisplayOptions { quiet, json } = cli.display;
    let silent = quiet || json;
    let result = match cli.command {
        Command::Mm(options) => run_mm(options).map(|()| 0).map_err(Failure::from),
        Command::Nm(options) => run_nm(options).map(|()| 0).map_err(Failure::from),
        Command::Relay(options) => run_relay(options).map(|()| 0).map_err(Failure::from),
        Command::Version => print(&output.version()).map(|()| 0),
        Command::Completion(options) => print(&completion::script(options.shell)).map(|()| 0),
        Command::Key(options) => key::run(&options, output.as_ref()),
        Command::Nap(options) => nap::run(&options),
        Command::Pmix(options) => pmix::run(options),
        Command::Slurm(options) => slurm::command(options, output.as_ref()),
        Command::Replay(options) if !options.live => {
            replay::run(&options, output.as_ref(), quiet, silent)
        }
        Command::Workload(options) => workload::run(&options, output.as_ref(), json),
        command => client_command(command, output.as_ref(), cli.display),
    };
    match result {
        Ok(status) => status,
        Err(failure) => {
            note(&output.failure(&failure));
            failure.exit
        }
    }
}

/// Prints the parser's message: help, or an error, which is JSON if a script asks for JSON. Returns
/// the exit status.
pub(crate) fn refuse(error: clap::Error) -> u8 {
    let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    let error = with_tip(error, &words.collect::<Vec<_>>());
    let asks_for_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|a| a == "--json");
    if !error.use_stderr() || !asks_for_json {
        error.exit();
    }
    let (message, hint) = message_and_hint(&error.render().to_string());
    let failure = Failure { hint, ..Failure::new("usage", message).exit(EXIT_USAGE) };
    note(&output::chosen(DisplayOptions { json: true, quiet: false }).failure(&failure));
    failure.exit
}

/// Splits the parser's text, which is laid out for users, into the error on one line and the hint.
pub(crate) fn message_and_hint(text: &str) -> (String, Option<String>) {
    let lines = || text.lines().map(str::trim);
    let message: Vec<&str> = lines().take_while(|line| !line.is_empty()).collect();
    let message = message.join(" ").trim_start_matches("error: ").to_owned();
    let tip = lines().find_map(|line| line.strip_prefix("tip: "));
    let usage = || lines().find(|line| line.starts_with("Usage: "));
    (message, tip.or_else(usage).map(str::to_owned))
}

/// The verbs that address a manager, or may be interrupted.
fn client_command(
    command: Command,
    output: &dyn Output,
    display: DisplayOptions,
) -> Result<u8, Failure> {
    let silent = display.quiet || display.json;
    let runtime = event_loop().map_err(|error| {
        let causes = vec![error.to_string()];
        let message = "the command cannot start".to_owned();
        Failure { message, causes, ..Failure::of("runtime", &error) }
    })?;
    let result = runtime.block_on(async {
        match command {
            Command::Submit(options) => {
                let options = batch::of_submit(own_options(*options)?, output)?;
                job::submit(&options, output, silent).await
            }
            Command::Batch(options) => {
                let options = batch::of_batch(own_options(options.job)?, output)?;
                job::submit(&options, output, silent).await
            }
            Command::Run(options) => job::run(&own_options(*options)?, output, silent).await,
            Command::Wait(options) => wait::wait(options, output, display).await,
            Command::Queue(options) => listing::queue(options, output).await,
            Command::Hist(options) => listing::hist(options, output).await,
            Command::Show(options) => listing::show(options, output).await,
            Command::Explain(options) => listing::explain(options, output).await,
            Command::Nodes(options) => listing::nodes(options, output).await,
            Command::Drain(options) => listing::drain(options, output).await,
            Command::Resume(options) => listing::resume(options, output).await,
            Command::Cancel(options) => listing::cancel(options, output).await,
            Command::Hold(options) => changing::hold(options, output).await,
            Command::Release(options) => changing::release(options, output).await,
            Command::Requeue(options) => changing::requeue(options, output).await,
            Command::Suspend(options) => changing::suspend(options, output).await,
            Command::ResumeJob(options) => changing::resume_job(options, output).await,
            Command::Update(options) => changing::update(options, output).await,
            Command::Priority(options) => service::priority(options, output).await,
            Command::Shares(options) => service::shares(options, output).await,
            Command::Partition(options) => partition::run(options.command, output).await,
            Command::Reservation(options) => reservation::run(options.command, output).await,
            Command::Up(options) => cluster::up(options, output, silent).await,
            Command::Down(options) => cluster::down(options, output, silent).await,
            Command::Model(options) => model::run(options.command, output, silent).await,
            Command::Replay(options) => replay::live(&options, output, silent).await,
            Command::Reproduce(options) => reproduce::run(&options, output, silent).await,
            Command::Sim(options) => sim::run(&options, output, silent).await,
            Command::Completion(_)
            | Command::Key(_)
            | Command::Mm(_)
            | Command::Nap(_)
            | Command::Nm(_)
            | Command::Pmix(_)
            | Command::Relay(_)
            | Command::Slurm(_)
            | Command::Version
            | Command::Workload(_) => Ok(0),
        }
    });
    // A blocked read of our standard input must not delay the end.
    runtime.shutdown_background();
    result
}

/// The options of a job, with those after the program that are meant for storm.
fn own_options(options: JobOptions) -> Result<JobOptions, Failure> {
    let (options, taken) = options.with_trailing_sched();
    if taken {
        note(
            "storm: --sched at the end is taken as storm's option; `--` keeps it for the program\n",
        );
    }
    // The first unknown word and all later words are the program, so a misspelt option of ours
    // would be taken for the program.
    let program = options.program.first().map(|name| name.to_string_lossy().into_owned());
    match program.filter(|name| name.starts_with('-') && name != STANDARD_INPUT) {
        Some(name) => Err(Failure::new("usage", format!("there is no option {name}"))
            .hint(format!("see --help; to run a program of that name, write ./{name}"))
            .exit(EXIT_USAGE)),
        None => Ok(options),
    }
}

/// Connects to the cluster that the options select.
async fn connect(options: &ClusterOptions) -> Result<Client, Failure> {
    Ok(choices(options)?.required()?.open()?.connect().await?)
}

pub(crate) fn choices(options: &ClusterOptions) -> Result<Choices, Failure> {
    Choices::find(options, state_dir().live_socket().map_err(Failure::from))
}

/// The directory with the record of `storm up`. Notes if `$XDG_RUNTIME_DIR` cannot be used.
fn state_dir() -> StateDir {
    if let Some(complaint) = StateDir::complaint() {
        note(&format!("storm: {complaint}\n"));
    }
    StateDir::of_user()
}

/// Prints a result. A reader that has left is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match StandardOutput::Stdout.write_whole(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let text = "the result cannot be written to standard output";
            let mut failure = Failure::new("output", text).hint("is there space left on its disk?");
            failure.causes.push(error.to_string());
            Err(failure)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a note. Ignores errors: no other output is left.
pub(crate) fn note(text: &str) {
    let _ = StandardOutput::Stderr.write_whole(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::message_and_hint;

    #[test]
    fn parser_errors_are_one_line_in_json() {
        let text = "error: the following required arguments were not provided:\n  <A>\n  <B>\n\n\
                    Usage: storm x <A> <B>\n\nFor more information, try '--help'.\n";
        let (message, hint) = message_and_hint(text);
        assert_eq!(message, "the following required arguments were not provided: <A> <B>");
        assert_eq!(hint.as_deref(), Some("Usage: storm x <A> <B>"));
        let (message, hint) =
            message_and_hint("error: unrecognized subcommand 'q'\n\n  tip: say queue\n");
        assert_eq!(
            (message.as_str(), hint.as_deref()),
            ("unrecognized subcommand 'q'", Some("say queue"))
        );
    }
}
