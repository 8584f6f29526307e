//! `__pmix`: a rank that becomes a client of PMIx, or the server for a node's ranks.

use crate::cli::PmixOptions;
use crate::failure::Failure;
use std::ffi::OsString;
use storm_pmix::{RankOptions, ServeOptions, serve, start_rank};

/// `__pmix`. Returns only if the program was not executed, or from the server's first process.
pub(super) fn run(options: PmixOptions) -> Result<u8, Failure> {
    let PmixOptions { nspace, mapping, heartbeat_bytes, cpus, .. } = options;
    if options.serve {
        let options = ServeOptions { nspace, mapping, heartbeat_bytes, cpus };
        return serve(&options).map(|()| 0).map_err(|error| Failure::of("pmix", &error));
    }
    let bytes = heartbeat_bytes.to_string();
    let server = ["__pmix", "--serve", "--nspace", &nspace, "--mapping", &mapping];
    let server = server.into_iter().chain(["--heartbeat-bytes", &bytes]).map(OsString::from);
    let cpus = cpus.iter().flat_map(|cpu| ["--cpus".to_owned(), cpu.to_string()]);
    let server = server.chain(cpus.map(OsString::from));
    let copy = options.program.unwrap_or_default();
    let original = options.original.filter(|original| storm_pl::stands_in_for(original, &copy));
    let error = start_rank(&RankOptions {
        shared_memory: options.shared_memory.unwrap_or_default(),
        program: copy,
        original,
        argv: options.argv,
        server: server.collect(),
    });
    Err(Failure::of("pmix", &error).exit(error.exit_code()))
}
