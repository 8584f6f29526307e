//! `workload`: generates logs from a model.

use super::print;
use crate::cli::{LublinArguments, WorkloadModel, WorkloadOptions};
use crate::failure::{EXIT_USAGE, Failure};
use crate::output::{Output, Sheet};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use storm_replay::lublin::{JobClasses, LublinOptions, Workload, generate};
use storm_sched::swf::SwfRecord;

/// The output for programs if the log is written to a file.
#[derive(Debug, Serialize)]
struct Written<'a> {
    file: &'a Path,
    jobs: usize,
    pes: u32,
    seed: u64,
}

/// The output for programs if the log is written to standard output.
#[derive(Debug, Serialize)]
struct Generated {
    pes: u32,
    seed: u64,
    jobs: Vec<Job>,
}

/// A job of the log.
#[derive(Debug, Serialize)]
struct Job {
    job: i64,
    submit_s: i64,
    run_s: i64,
    procs: i64,
    queue: i64,
}

/// `workload`.
pub(super) fn run(
    options: &WorkloadOptions,
    output: &dyn Output,
    json: bool,
) -> Result<u8, Failure> {
    match &options.model {
        WorkloadModel::Lublin(arguments) => lublin(arguments, output, json),
    }
}

fn lublin(arguments: &LublinArguments, output: &dyn Output, json: bool) -> Result<u8, Failure> {
    let &LublinArguments { pes, jobs, load, seed, typeless, .. } = arguments;
    let classes = if typeless { JobClasses::Typeless } else { JobClasses::Typed };
    let workload = generate(&LublinOptions { pes, jobs, classes, load, seed })
        .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    let Some(path) = arguments.output.as_ref().filter(|path| *path != Path::new("-")) else {
        if json {
            let jobs = workload.records.iter().map(job).collect();
            return print(&output.sheet(&Sheet::new(&Generated { pes, seed, jobs }))).map(|()| 0);
        }
        return match write(&workload, io::stdout().lock()) {
            // A reader that has left is not an error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::of("output", &error))
            }
            Ok(()) | Err(_) => Ok(0),
        };
    };
    write_file(&workload, path).map_err(|error| {
        let mut failure = Failure::new("file", format!("{} cannot be written", path.display()));
        failure.causes.push(error.to_string());
        failure.hint("name a file in a directory that exists and is yours")
    })?;
    let written = Written { file: path, jobs: workload.records.len(), pes, seed };
    let told = vec![("log", path.display().to_string()), ("jobs", written.jobs.to_string())];
    print(&output.sheet(&Sheet::new(&written).pairs(told)))?;
    Ok(0)
}

fn job(record: &SwfRecord) -> Job {
    let &SwfRecord { job, submit_s, run_s, allocated: procs, queue, .. } = record;
    Job { job, submit_s, run_s, procs, queue }
}

fn write_file(workload: &Workload, path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    if path.extension().is_some_and(|end| end == "gz") {
        let mut gzip = GzEncoder::new(file, Compression::default());
        write(workload, &mut gzip)?;
        gzip.finish().map(drop)
    } else {
        write(workload, file)
    }
}

fn write(workload: &Workload, to: impl Write) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    write!(to, "{}", workload.header)?;
    for record in &workload.records {
        writeln!(to, "{record}")?;
    }
    to.flush()
}
