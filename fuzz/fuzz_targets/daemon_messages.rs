//! The messages between the Machine Manager and the Node Managers, in their queues.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::survives;
use storm_primitives::{MAX_NODES, NodeId};
use storm_rm::heartbeat::{decode_for, encode};
use storm_rm::message::Report;
use storm_rm::{JobSpec, MAX_RANKS, RankMap};

fuzz_target!(|input: &[u8]| {
    let Some((kind, body)) = input.split_first() else { return };
    match kind % 4 {
        0 => {
            if let Ok(heartbeat) = decode_for(NodeId(1), body) {
                let again = encode(&heartbeat).expect("what was decoded is encoded");
                assert_eq!(decode_for(NodeId(1), &again), Ok(heartbeat));
            }
        }
        1 => drop(survives::<Vec<Report>>(body)),
        2 => drop(survives::<JobSpec>(body)),
        _ => {
            let Some(map) = survives::<RankMap>(body) else { return };
            let (mut nodes, mut ranks) = (0, 0);
            for share in map.iter() {
                assert!(share.node.0 < MAX_NODES && share.count > 0);
                (nodes, ranks) = (nodes + 1, ranks + share.count);
            }
            assert!(nodes <= ranks && ranks <= MAX_RANKS, "{ranks} ranks on {nodes} nodes");
            assert!(map.iter().take(100).all(|share| map.of_node(share.node).is_some()));
        }
    }
});
