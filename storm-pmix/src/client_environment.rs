//! The environment of a rank: settings for Open MPI that its user has not made, and the removal of
//! variables that belong to another server.

use crate::handover::Environment;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use storm_mpi::defaults::{self, Defaults};

/// Prefix of Open MPI's parameters in an environment (Open MPI FAQ, "How do I set the value of MCA
/// parameters?").
const PARAMETER: &str = "OMPI_MCA_";
/// A user's own file of parameters, in the home directory (the same FAQ).
const USERS_FILE: &str = ".openmpi/mca-params.conf";
/// The longest such file that is read. Real files have a few lines.
const USERS_FILE_MAX_BYTES: u64 = 1 << 20;

/// Variables that Open MPI sets in a process that has joined a job, for processes that it starts
/// (4.1 and 5.0).
const OF_THE_LIBRARY: [&str; 8] = [
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_orte_ess_num_procs",
    "OMPI_MCA_orte_precondition_transports",
];

/// Whether a PMIx server or Open MPI sets the variable to tell a rank about itself. The variable
/// then means nothing to a job that the rank submits. Parameters (`PMIX_MCA_`) and the place of
/// libpmix (`PMIX_PREFIX`, `PMIX_LIBDIR` and so on) are a user's choice.
pub fn is_of_a_server(variable: &OsStr) -> bool {
    if OF_THE_LIBRARY.iter().any(|own| variable == *own) {
        return true;
    }
    let Some(name) = variable.as_bytes().strip_prefix(b"PMIX_") else { return false };
    let is_place = name == b"PREFIX"
        || name == b"EXEC_PREFIX"
        || (name.ends_with(b"DIR") && !name.ends_with(b"TMPDIR"));
    !is_place && !name.starts_with(b"MCA_")
}

/// Removes the variables of other servers in this process from a program that is about to be
/// started.
pub(crate) fn without_other_servers(program: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_server(name)) {
        program.env_remove(name);
    }
}

/// Chooses settings of libpmix in a server, unless its user has chosen. One of libpmix's ways to
/// keep data in shared memory for ranks, `ds21`, has room for only one program of each rank. With
/// it, a second program of a rank fails in `MPI_Init` (4.2), so it is excluded. Excluding a way
/// that does not exist does no harm.
pub(crate) fn set_server(server: &mut Command) {
    const STORAGE: &str = "PMIX_MCA_gds";
    if env::var_os(STORAGE).is_none() {
        server.env(STORAGE, "^ds21");
    }
}

/// Gives a program the environment of its server, and sets Open MPI's parameters that neither the
/// user's environment nor the user's file sets. The Node Manager cannot read the file, so the file
/// also overrides the Node Manager's settings.
pub(crate) fn set_open_mpi(program: &mut Command, shared_memory: &Path, of_server: Environment) {
    let users = users_parameters();
    let mut given = Defaults::of_this_process();
    let of_users = users.iter().map(|name| OsString::from(format!("{PARAMETER}{name}")));
    for name in of_users {
        if env::var_os(&name).is_some_and(|value| given.contain(&name, &value)) {
            given.remove(&name);
            program.env_remove(&name);
        }
    }
    for (parameter, value) in settings(shared_memory, &users) {
        let name = OsString::from(format!("{PARAMETER}{parameter}"));
        if env::var_os(&name).is_none() && !users.iter().any(|known| known == parameter) {
            given.add(&name, &value);
            program.env(name, value);
        }
    }
    for (name, value) in of_server {
        given.add(&name, &value);
        program.env(name, value);
    }
    program.env(defaults::VARIABLE, given.encode());
}

/// The settings of Open MPI. Except under `mpirun` and resource managers that it knows, version 4.x
/// assumes a process without a job. It names files in shared memory by the host and the place on
/// the node, but nodes may share a host. It excludes loopback, which may be the only connection
/// between the nodes. Unknown names are ignored.
fn settings(shared_memory: &Path, users: &[String]) -> Vec<(&'static str, OsString)> {
    let mut settings = vec![("schizo", "^orte".into()), ("ess", "pmi".into())];
    let directories = [
        "btl_vader_backing_directory",
        "btl_sm_backing_directory",
        "osc_sm_backing_directory",
        "osc_rdma_backing_directory",
    ];
    settings.extend(directories.map(|name| (name, shared_memory.into())));
    let address = env::var("STORM_NODE_ADDR").ok().and_then(|text| text.parse::<IpAddr>().ok());
    // Open MPI accepts only one of the include list and the exclude list.
    const EXCLUDES: &str = "btl_tcp_if_exclude";
    let excludes = env::var_os(format!("{PARAMETER}{EXCLUDES}")).is_some()
        || users.iter().any(|name| name == EXCLUDES);
    if !excludes && address.is_some_and(|address| address.is_loopback()) {
        settings.push(("btl_tcp_if_include", "127.0.0.0/8".into()));
    }
    settings
}

/// The parameters that this user's file sets. Empty if there is no file.
fn users_parameters() -> Vec<String> {
    let file = env::var_os("HOME").map(|home| PathBuf::from(home).join(USERS_FILE));
    let Some(file) = file.and_then(|file| File::open(file).ok()) else { return Vec::new() };
    let mut text = Vec::new();
    // A file that cannot be read sets nothing, for Open MPI as well.
    let _ = file.take(USERS_FILE_MAX_BYTES).read_to_end(&mut text);
    parameters(&text)
}

/// The names in a file of parameters: `NAME = VALUE` on each line, `#` before comments.
pub(crate) fn parameters(text: &[u8]) -> Vec<String> {
    let name = |line: &[u8]| {
        let end = line.iter().position(|byte| *byte == b'=')?;
        let name = std::str::from_utf8(&line[..end]).ok()?.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
    };
    text.split(|byte| *byte == b'\n').filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parameters_are_read_as_open_mpi_does() {
        let text = b"# btl = self\n\nbtl_tcp_if_include = eth0 # ours\r\n  ess=x\n#ess2=y\nno\n = z\n\xff=1";
        assert_eq!(parameters(text), ["btl_tcp_if_include", "ess"]);
    }

    #[test]
    fn variables_of_a_server_differ_from_those_of_users() {
        for name in
            ["PMIX_SERVER_TMPDIR", "PMIX_RANK", "PMIX_SERVER_URI41", "PMIX_GDS_MODULE", "OMPI_ARGV"]
        {
            assert!(is_of_a_server(name.as_ref()), "{name}");
        }
        for name in ["PMIX_MCA_gds", "PMIX_PREFIX", "PMIX_LIBDIR", "PMIX", "OMPI_MCA_pmix", "X"] {
            assert!(!is_of_a_server(name.as_ref()), "{name}");
        }
    }
}
