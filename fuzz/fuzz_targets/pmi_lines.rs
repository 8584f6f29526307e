//! The lines of PMI-1 in both directions, and the placement of ranks that one of them holds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::plant;
use storm_mpi::pmi::ProcessMapping;
use storm_mpi::pmi::wire::{MAX_LINE_BYTES, Request, Response};

/// Ranks of a job that a mapping is asked for.
const RANKS: usize = 1000;

/// Lines of both sides, and a mapping.
const LINES: [&str; 22] = [
    "cmd=init pmi_version=1 pmi_subversion=1",
    "cmd=get_maxes",
    "cmd=get_appnum",
    "cmd=get_my_kvsname",
    "cmd=get kvsname=storm-1-1 key=PMI_process_mapping",
    "cmd=put kvsname=storm-1-1 key=P0-businesscard value=description#n1$port#40000$",
    "cmd=barrier_in",
    "cmd=get_universe_size",
    "cmd=finalize",
    "cmd=abort exitcode=7",
    "mcmd=spawn",
    "cmd=publish_name service=x",
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
    "cmd=appnum appnum=0",
    "cmd=my_kvsname kvsname=storm-1-1",
    "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))",
    "cmd=put_result rc=-1 msg=key_value_space_full",
    "cmd=universe_size size=4",
    "cmd=spawn_result rc=-1 errcodes=-1,-1",
    "cmd=lookup_result info=no rc=-1 msg=no",
    "(vector,(0,1,3),(4,2,1))",
];

fuzz_target!(init: plant(LINES), |line: &[u8]| {
    if let Ok(request) = Request::parse_bytes(line) {
        let text = request.to_string();
        assert!(text.len() <= MAX_LINE_BYTES && !text.contains('\n'), "{text:?}");
        assert_eq!(Request::parse(&text).as_ref(), Ok(&request));
    }
    if let Ok(response) = Response::parse_bytes(line) {
        let text = response.to_string();
        assert!(text.len() <= MAX_LINE_BYTES && !text.contains('\n'), "{text:?}");
        assert_eq!(Response::parse(&text).as_ref(), Ok(&response));
    }
    let Ok(text) = std::str::from_utf8(line) else { return };
    let Ok(mapping) = ProcessMapping::parse(text) else { return };
    let again = ProcessMapping::parse(&mapping.to_string()).expect("its own text");
    assert_eq!(again, mapping);
    if let Ok(nodes) = mapping.nodes_of_ranks(RANKS) {
        assert_eq!(nodes.len(), RANKS);
    }
});
