//! The PMI server of a node whose ranks say anything. Every answer is a line of PMI-1, a barrier
//! opens only when all ranks are in, and a get returns the value that was put.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet};
use storm_fuzz::Script;
use storm_mpi::Rank;
use storm_mpi::pmi::NodeServer;
use storm_mpi::pmi::node_server::{NodeServerConfig, Output};
use storm_mpi::pmi::wire::{MAX_LINE_BYTES, Request, Response};

/// Ranks on the node.
const RANKS: u32 = 3;

fn request(script: &mut Script<'_>) -> String {
    let (kvsname, key) = ("kvs".to_owned(), format!("k{}", script.byte() % 8));
    match script.byte() % 6 {
        0 | 1 => String::from_utf8_lossy(script.line()).into_owned(),
        2 => {
            let value = format!("v{}", script.byte());
            Request::Put { kvsname, key, value }.to_string()
        }
        3 => Request::Get { kvsname, key }.to_string(),
        4 => Request::BarrierIn.to_string(),
        _ => Request::Finalize.to_string(),
    }
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let mut server = NodeServer::new(NodeServerConfig {
        kvsname: "kvs".to_owned(),
        size: RANKS + 2,
        universe_size: RANKS + 2,
        appnum: 0,
        local_ranks: (0..RANKS).map(Rank).collect(),
        process_mapping: "(vector,(0,1,3),(1,1,2))".to_owned(),
    });
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut inside = BTreeSet::new();
    while let Some(step) = script.step(6) {
        let mut asked = None;
        let outputs = match step {
            0 => {
                let pairs: Vec<(String, String)> = script.message().unwrap_or_default();
                known.clear();
                inside.clear();
                server.fence_done(pairs)
            }
            1 => {
                server.rank_ended(Rank(u32::from(script.byte()) % RANKS));
                Vec::new()
            }
            _ => {
                let rank = Rank(u32::from(script.byte()) % (RANKS + 1));
                let line = request(&mut script);
                asked = Request::parse(&line).ok();
                if asked == Some(Request::BarrierIn) && rank.0 < RANKS {
                    inside.insert(rank);
                }
                server.request(rank, &line)
            }
        };
        for output in outputs {
            match output {
                Output::Reply { line, .. } => {
                    assert!(line.len() <= MAX_LINE_BYTES, "{} bytes", line.len());
                    let response = Response::parse(&line).expect("a line of PMI-1");
                    match (&asked, response) {
                        (
                            Some(Request::Put { key, value, .. }),
                            Response::PutResult { rc: 0, .. },
                        ) => {
                            known.insert(key.clone(), value.clone());
                        }
                        (
                            Some(Request::Get { key, .. }),
                            Response::GetResult { rc: 0, value, .. },
                        ) => {
                            assert!(known.get(key).is_none_or(|put| *put == value));
                        }
                        _ => {}
                    }
                }
                Output::FenceReady { .. } => assert_eq!(inside.len(), RANKS as usize),
                Output::Abort { .. } | Output::Violation { .. } => {}
            }
        }
        let _ = (server.gone(), server.waiting());
    }
});
