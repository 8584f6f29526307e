//! Message-passing libraries side by side. The same program is compiled with each.

use crate::peers::{Absent, available};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The program: a size's best time.
const PROGRAM: &str = include_str!("pingpong.c");

/// The placement of the two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// On one node, with shared memory.
    Node,
    /// On two nodes, which are processes of this host: TCP through loopback.
    Tcp,
}

/// A library, and how its ranks are started.
#[derive(Debug)]
pub struct Contestant {
    /// The name in the report.
    pub name: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Clone, Debug)]
enum Kind {
    /// storm-mpi with this `STORM_MPI_WAIT`.
    Storm(String),
    Mpich,
    OpenMpi,
}

/// The work of the two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A message there and back; the result is half of the time
    Message,
    /// `MPI_Barrier`; has no length
    Barrier,
    /// `MPI_Bcast`
    Bcast,
    /// `MPI_Reduce`, a sum of doubles
    Reduce,
    /// `MPI_Allreduce`
    Allreduce,
    /// `MPI_Reduce_scatter_block`; lengths are those of a block
    ReduceScatter,
    /// `MPI_Scan`
    Scan,
    /// `MPI_Gather`
    Gather,
    /// `MPI_Scatter`
    Scatter,
    /// `MPI_Allgather`
    Allgather,
    /// `MPI_Alltoall`
    Alltoall,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// One measured size.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Length of the messages.
    pub bytes: u32,
    /// The time of a message from one rank to the other, or of a collective.
    pub us: f64,
}

/// Our library with each way to wait. With `peers`, also the other installed libraries, and the
/// reasons why others are missing.
///
/// # Errors
/// The program for our library cannot be compiled.
pub fn contestants(
    storm: &Path,
    waits: &[String],
    peers: bool,
    directory: &TempDir,
) -> Result<(Vec<Contestant>, Vec<Absent>)> {
    let source = directory.path().join("pingpong.c");
    std::fs::write(&source, PROGRAM)?;
    let compiled = |compiler: &Path, name: &str| -> Result<PathBuf> {
        let program = directory.path().join(name);
        let mut command = Command::new(compiler);
        command.args(["-O2", "-o"]).arg(&program).arg(&source).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("no {}", compiler.display()))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(program)
    };
    let ours = compiled(&storm.with_file_name("storm-mpicc"), "storm")?;
    let mut all: Vec<Contestant> = waits
        .iter()
        .map(|wait| Contestant {
            name: format!("storm-mpi {wait}"),
            kind: Kind::Storm(wait.clone()),
            program: ours.clone(),
        })
        .collect();
    let mut absent = Vec::new();
    let others =
        [("MPICH", "mpicc.mpich", Kind::Mpich), ("Open MPI", "mpicc.openmpi", Kind::OpenMpi)];
    for (name, compiler, kind) in others.into_iter().filter(|_| peers) {
        match available(name, compiled(Path::new(compiler), compiler)) {
            Ok(program) => all.push(Contestant { name: name.to_owned(), kind, program }),
            Err(why) => absent.push(why),
        }
    }
    Ok((all, absent))
}

impl Contestant {
    /// Measures all sizes once.
    ///
    /// # Errors
    /// The ranks cannot be started, or fail.
    pub fn measure(
        &self,
        storm: &Path,
        (way, what): (Way, What),
        seconds: f64,
        sizes: &[u32],
    ) -> Result<Vec<Point>> {
        let mut command = self.launched(storm, way);
        command.arg(&self.program).args([what.to_string(), seconds.to_string()]);
        command.stdin(Stdio::null()).args(sizes.iter().map(u32::to_string));
        let output = command.output().with_context(|| format!("{command:?}"))?;
        if !output.status.success() {
            bail!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let points: Vec<Point> = text.lines().filter_map(point).collect();
        ensure!(points.len() == sizes.len(), "{} said: {text}", self.name);
        Ok(points)
    }

    fn launched(&self, storm: &Path, way: Way) -> Command {
        match &self.kind {
            Kind::Storm(wait) => {
                let mut command = Command::new(storm);
                command.args(["submit", "-n", "2", "--sched", "fcfs"]).env("STORM_MPI_WAIT", wait);
                command.args(match way {
                    Way::Node => ["--nodes", "1", "--pes", "2"],
                    Way::Tcp => ["--nodes", "2", "--pes", "1"],
                });
                command
            }
            Kind::Mpich => {
                let mut command = Command::new("mpiexec.mpich");
                command.args(["-n", "2"]);
                if way == Way::Tcp {
                    // Settings for UCX and for libfabric: this MPICH may be built with either.
                    command.env("UCX_TLS", "tcp,self").env("FI_PROVIDER", "tcp");
                    command.env("MPIR_CVAR_NOLOCAL", "1");
                }
                command
            }
            Kind::OpenMpi => {
                let mut command = Command::new("mpiexec.openmpi");
                command.args(["-n", "2", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl"]);
                command.arg(if way == Way::Tcp { "tcp,self" } else { "vader,self" });
                // Open MPI asks twice whether root may run it.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command
            }
        }
    }
}

fn point(line: &str) -> Option<Point> {
    let (bytes, us) = line.split_once(' ')?;
    Some(Point { bytes: bytes.parse().ok()?, us: us.trim().parse().ok()? })
}
