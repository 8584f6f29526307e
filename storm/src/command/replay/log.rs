//! Reads a log from a file or standard input, compressed or not.

use super::CODE;
use crate::cli::ReplayOptions;
use crate::command::progress::Patient;
use crate::failure::Failure;
use crate::standard_streams::StandardInput;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use storm_replay::MAX_JOBS;
use storm_sched::swf::{Cleaned, Cleaning, Conformity, Drops, LogJob, SwfContents, SwfReader};

/// The file name for standard input.
const STDIN: &str = "-";
/// The first bytes of a gzip file (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Most damaged lines that a refusal lists.
const TOLD_LINES: usize = 10;
/// A real log has its first job long before, after any number of comments.
const JOBLESS_BYTES_MAX: usize = 64 << 20;
/// Bytes read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A log that was read and cleaned.
#[derive(Debug)]
pub(super) struct Log {
    /// Processors of the machine.
    pub(super) pes: u32,
    /// Whether the number of processors is the log's MaxNodes, for lack of a better number.
    pub(super) from_max_nodes: bool,
    pub(super) jobs: Vec<LogJob>,
    pub(super) drops: Drops,
    pub(super) contents: SwfContents,
}

/// Reads the log that the options name.
pub(super) fn read(options: &ReplayOptions, silent: bool) -> Result<Log, Failure> {
    let path = options.log.as_path();
    let conformity = if options.strict { Conformity::Strict } else { Conformity::Lenient };
    let (cleaning, contents) = if path == Path::new(STDIN) {
        read_from(path, BufReader::new(StandardInput), conformity, silent)?
    } else {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        read_from(path, BufReader::new(file), conformity, silent)?
    };
    if options.strict && contents.damaged_count > 0 {
        return Err(damaged(path, &contents));
    }
    if contents.records == 0 {
        return Err(no_log(path, &contents));
    }
    let header = &contents.header;
    let (max_procs, max_nodes) = (header.max_procs(), header.max_nodes());
    let Some(pes) = options.pes.or(max_procs).or(max_nodes) else {
        return Err(no_machine(path, cleaning.largest_procs()));
    };
    let from_max_nodes = options.pes.is_none() && max_procs.is_none();
    let Cleaned { jobs, drops } = cleaning.for_machine(pes);
    if jobs.is_empty() {
        let message = format!("no job of {} can be replayed", path.display());
        let mut failure = Failure::new(CODE, message);
        failure.causes.push(super::reasons(&drops));
        return Err(failure.hint("is --pes too small, or the log one of something else?"));
    }
    Ok(Log { pes, from_max_nodes, jobs, drops, contents })
}

fn read_from(
    path: &Path,
    mut bytes: impl BufRead,
    conformity: Conformity,
    silent: bool,
) -> Result<(Cleaning, SwfContents), Failure> {
    let begin = bytes.fill_buf().map_err(|error| unreadable(path, &error))?;
    if begin.starts_with(&GZIP_MAGIC) {
        pieces(path, MultiGzDecoder::new(bytes), conformity, silent)
    } else {
        pieces(path, bytes, conformity, silent)
    }
}

fn pieces(
    path: &Path,
    mut bytes: impl Read,
    conformity: Conformity,
    silent: bool,
) -> Result<(Cleaning, SwfContents), Failure> {
    let mut progress = Patient::new(silent, "reading {pos} jobs");
    let mut cleaning = Cleaning::default();
    let mut reader = SwfReader::new(conformity);
    let mut piece = vec![0; PIECE_BYTES];
    let mut jobless_bytes = 0;
    while reader.records() > 0 || jobless_bytes < JOBLESS_BYTES_MAX {
        let read = match bytes.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cut_short(path, reader.records(), &error)),
        };
        reader.push(&piece[..read], &mut |record| cleaning.add(&record));
        jobless_bytes += read;
        progress.show(reader.records(), reader.records());
        if reader.records() > MAX_JOBS as u64 {
            let message = format!("{} has more than {MAX_JOBS} jobs", path.display());
            return Err(Failure::new(CODE, message).hint("replay a part of it"));
        }
    }
    let contents = reader.finish(&mut |record| cleaning.add(&record));
    Ok((cleaning, contents))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let mut failure = Failure::new("file", format!("{} cannot be read", path.display()));
    failure.causes.push(error.to_string());
    failure.hint("name a log in the Standard Workload Format; `-` is standard input")
}

/// The failure for unreadable bytes, most often a compressed file that was not copied to its end.
fn cut_short(path: &Path, jobs: u64, error: &io::Error) -> Failure {
    let message = format!("{} cannot be read beyond its job {jobs}", path.display());
    let mut failure = Failure::new("file", message);
    failure.causes.push(error.to_string());
    match error.kind() {
        io::ErrorKind::UnexpectedEof => failure.hint("it ends in the middle: copy it again"),
        _ => failure.hint("is it damaged? `gzip -t` tells"),
    }
}

/// The failure for damaged lines: the first of them, and how many there are.
fn damaged(path: &Path, contents: &SwfContents) -> Failure {
    let message =
        format!("{} is damaged in {} of its lines", path.display(), contents.damaged_count);
    let mut failure = Failure::new(CODE, message);
    let told = contents.damaged.iter().take(TOLD_LINES).map(ToString::to_string);
    let told: Vec<String> = told.collect();
    let mut cause = told.join("; ");
    if contents.damaged_count > told.len() as u64 {
        cause.push_str(&format!("; and {} more", contents.damaged_count - told.len() as u64));
    }
    failure.causes.push(cause);
    failure.hint("without --strict the other lines are used")
}

fn no_log(path: &Path, contents: &SwfContents) -> Failure {
    let name = path.display();
    let message = match contents.damaged.first() {
        Some(_) => format!("{name} is not a log in the Standard Workload Format"),
        None => format!("{name} has no jobs"),
    };
    let mut failure = Failure::new(CODE, message);
    failure.causes.extend(contents.damaged.first().map(ToString::to_string));
    failure.hint("each line of such a log is a job of 18 numbers, or a comment behind `;`")
}

fn no_machine(path: &Path, largest: u32) -> Failure {
    let message = format!("{} does not say how many processors its machine has", path.display());
    let mut failure = Failure::new(CODE, message);
    failure.causes.push("there is neither `; MaxProcs:` nor `; MaxNodes:` in it".to_owned());
    failure.hint(format!("give their number with --pes; the largest job has {largest}"))
}
