//! PMI-1 as observed from MPICH, line by line, and hostile lines.

use proptest::prelude::*;
use storm_mpi::Rank;
use storm_mpi::pmi::node_server::{
    MAX_KEPT_BYTES, MAX_PUTS_PER_RANK, NodeServer, NodeServerConfig, Output, RequestError,
};
use storm_mpi::pmi::wire::{MAX_LINE_BYTES, Request, Response, WireError};

fn server(local_ranks: &[u32]) -> NodeServer {
    NodeServer::new(NodeServerConfig {
        kvsname: "KVS".to_owned(),
        size: 4,
        universe_size: 4,
        appnum: 0,
        local_ranks: local_ranks.iter().map(|&r| Rank(r)).collect(),
        process_mapping: "(vector,(0,2,2))".to_owned(),
    })
}

fn replies(outputs: Vec<Output>) -> Vec<(u32, String)> {
    let one = |output| match output {
        Output::Reply { rank, line } => (rank.0, line),
        other => panic!("not a reply: {other:?}"),
    };
    outputs.into_iter().map(one).collect()
}

/// The whole start-up of an MPICH process: its lines, and the answers that it must get.
#[test]
fn mpich_transcript() {
    let transcript = [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        ),
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"),
        ("cmd=get_appnum", "cmd=appnum appnum=0"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=KVS"),
        (
            "cmd=get kvsname=KVS key=PMI_process_mapping",
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))",
        ),
        ("cmd=put kvsname=KVS key=K value=a[1]#2$=value=b c", "cmd=put_result rc=0 msg=success"),
        ("cmd=get kvsname=KVS key=K", "cmd=get_result rc=0 msg=success value=a[1]#2$=value=b c"),
        ("cmd=get kvsname=KVS key=Q", "cmd=get_result rc=-1 msg=key_Q_not_found value=unknown"),
        ("cmd=get_universe_size", "cmd=universe_size size=4"),
        (
            "cmd=publish_name service=s port=p",
            "cmd=publish_result info=name_service_not_offered rc=-1 msg=name_service_not_offered",
        ),
        (
            "cmd=lookup_name service=s",
            "cmd=lookup_result info=name_service_not_offered rc=-1 msg=name_service_not_offered",
        ),
        (
            "cmd=unpublish_name service=s",
            "cmd=unpublish_result info=name_service_not_offered rc=-1 msg=name_service_not_offered",
        ),
        ("cmd=finalize", "cmd=finalize_ack"),
    ];
    let mut server = server(&[0, 1]);
    for (request, response) in transcript {
        let got = replies(server.request(Rank(0), &format!("{request}\n")));
        assert_eq!(got, [(0, response.to_owned())]);
        assert_eq!(Response::parse(response).unwrap().to_string(), response);
    }
    assert!(server.finalized(Rank(0)) && !server.finalized(Rank(1)));
}

#[test]
fn barrier_is_answered_when_all_are_in_and_the_fence_is_done() {
    let mut server = server(&[2, 3]);
    server.request(Rank(2), "cmd=put kvsname=KVS key=a value=1");
    assert_eq!(server.request(Rank(2), "cmd=barrier_in"), []);
    let puts = vec![("a".to_owned(), "1".to_owned())];
    assert_eq!(
        server.request(Rank(3), "cmd=barrier_in"),
        [Output::FenceReady { puts: puts.clone() }]
    );
    let merged = [puts, vec![("z".to_owned(), "9".to_owned())]].concat();
    let out = "cmd=barrier_out".to_owned();
    assert_eq!(replies(server.fence_done(merged)), [(2, out.clone()), (3, out)]);
    let got = replies(server.request(Rank(3), "cmd=get kvsname=KVS key=z"));
    assert_eq!(got[0].1, "cmd=get_result rc=0 msg=success value=9");
    server.request(Rank(2), "cmd=barrier_in");
    assert_eq!(
        server.request(Rank(3), "cmd=barrier_in"),
        [Output::FenceReady { puts: vec![] }],
        "puts go out once"
    );
}

#[test]
fn spawn_is_refused_in_words() {
    let mut server = server(&[0]);
    for line in ["mcmd=spawn", "nprocs=2", "execname=/bin/true", "totspawns=1", "spawnssofar=1"] {
        assert_eq!(server.request(Rank(0), line), [], "{line}");
    }
    let got = replies(server.request(Rank(0), "endcmd"));
    assert_eq!(got, [(0, "cmd=spawn_result rc=-1 errcodes=-1,-1".to_owned())]);
    assert_eq!(replies(server.request(Rank(0), "cmd=get_appnum")).len(), 1);
}

#[test]
fn abort_has_no_answer_and_works_inside_a_barrier() {
    let mut server = server(&[0, 1]);
    let abort = [Output::Abort { rank: Rank(0), exit_code: 7 }];
    assert_eq!(server.request(Rank(0), "cmd=abort exitcode=7"), abort);
    server.request(Rank(0), "cmd=barrier_in");
    assert_eq!(server.request(Rank(0), "cmd=abort exitcode=7"), abort);
}

#[test]
fn violations_are_typed() {
    let refused =
        |server: &mut NodeServer, rank, line: &str| match &server.request(Rank(rank), line)[..] {
            [Output::Violation { error, .. }] => error.clone(),
            other => panic!("{other:?}"),
        };
    let violation = |rank, line: &str| refused(&mut server(&[0]), rank, line);
    assert_eq!(violation(9, "cmd=get_maxes"), RequestError::NotLocal { rank: Rank(9) });
    assert_eq!(
        violation(0, "cmd=get kvsname=KVS"),
        WireError::MissingField { command: "get", field: "key" }.into()
    );
    assert_eq!(violation(0, "hello"), WireError::MissingCommand.into());
    let long = format!("cmd=put kvsname=KVS key={} value=1", "k".repeat(65));
    assert_eq!(
        violation(0, &long),
        WireError::FieldTooLong { field: "key", limit_bytes: 64 }.into()
    );
    assert_eq!(
        violation(0, &"x".repeat(MAX_LINE_BYTES + 1)),
        WireError::LineTooLong { bytes: MAX_LINE_BYTES + 1 }.into()
    );
    let mut server = server(&[0]);
    server.request(Rank(0), "cmd=finalize");
    assert_eq!(
        refused(&mut server, 0, "cmd=get_maxes"),
        RequestError::AfterFinalize { rank: Rank(0) }
    );
}

#[test]
fn a_rank_that_broke_the_protocol_is_gone_and_not_served_again() {
    let mut server = server(&[0, 1]);
    assert_eq!(server.gone(), None);
    server.request(Rank(0), "cmd=barrier_in");
    server.request(Rank(1), "garbage");
    assert_eq!((server.gone(), server.waiting()), (Some(Rank(1)), Some(Rank(0))));
    assert_eq!(server.request(Rank(1), "cmd=barrier_in"), [], "its violation has been told");
    server.rank_ended(Rank(0));
    let error = RequestError::Gone { rank: Rank(0) };
    let late = server.request(Rank(0), "cmd=barrier_in");
    assert_eq!(late, [Output::Violation { rank: Rank(0), error }]);
}

#[test]
fn a_rank_that_ends_is_gone_unless_it_has_finalized_or_nobody_speaks_pmi() {
    let mut silent = server(&[0, 1]);
    silent.rank_ended(Rank(0));
    assert_eq!(silent.gone(), None, "no program of this job knows of barriers");
    let mut speaking = server(&[0, 1]);
    speaking.request(Rank(0), "cmd=finalize");
    speaking.rank_ended(Rank(0));
    assert_eq!(speaking.gone(), None);
    speaking.rank_ended(Rank(1));
    assert_eq!(speaking.gone(), Some(Rank(1)));
}

#[test]
fn a_rank_may_be_a_script_of_several_programs_that_join_one_after_the_other() {
    const INIT: &str = "cmd=init pmi_version=1 pmi_subversion=1";
    let mut server = server(&[0, 1]);
    for _ in 0..3 {
        for rank in [0, 1] {
            let init = replies(server.request(Rank(rank), INIT));
            assert_eq!(init[0].1, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
            assert!(server.is_among_peers(Rank(rank)));
        }
        server.request(Rank(0), "cmd=barrier_in");
        let fence = server.request(Rank(1), "cmd=barrier_in");
        assert_eq!(fence, [Output::FenceReady { puts: Vec::new() }]);
        server.fence_done(Vec::new());
        for rank in [0, 1] {
            server.request(Rank(rank), "cmd=finalize");
            assert!(server.finalized(Rank(rank)));
        }
    }
    server.rank_ended(Rank(1));
    assert!(server.finalized(Rank(1)) && server.gone().is_none());
    server.request(Rank(0), INIT);
    server.request(Rank(0), "cmd=barrier_in");
    assert_eq!((server.ended(), server.waiting()), (Some(Rank(1)), Some(Rank(0))));
}

#[test]
fn a_placement_that_is_longer_than_a_value_can_be_is_not_told() {
    let get = "cmd=get kvsname=KVS key=PMI_process_mapping";
    for (blocks, rc) in [(100, "rc=0"), (300, "rc=-1")] {
        let blocks: String = (0..blocks).map(|node| format!(",({node},1,1)")).collect();
        let mut server = NodeServer::new(NodeServerConfig {
            kvsname: "KVS".to_owned(),
            size: 4,
            universe_size: 4,
            appnum: 0,
            local_ranks: vec![Rank(0)],
            process_mapping: format!("(vector{blocks})"),
        });
        let answer = &replies(server.request(Rank(0), get))[0].1;
        assert!(answer.contains(rc), "{answer}");
    }
}

#[test]
fn values_that_are_replaced_take_no_room() {
    let mut server = server(&[0]);
    let put = format!("cmd=put kvsname=KVS key=k value={}", "v".repeat(1000));
    for _ in 0..2 * MAX_KEPT_BYTES / 1000 {
        let answer = &replies(server.request(Rank(0), &put))[0].1;
        assert_eq!(answer, "cmd=put_result rc=0 msg=success");
        server.request(Rank(0), "cmd=barrier_in");
        server.fence_done(vec![("k".to_owned(), "v".repeat(1000))]);
    }
}

#[test]
fn a_key_value_space_has_an_end() {
    let mut server = server(&[0]);
    let value = "v".repeat(1000);
    let mut refused = None;
    for round in 0..100 {
        for key in 0..MAX_PUTS_PER_RANK {
            let put = format!("cmd=put kvsname=KVS key={round}-{key} value={value}");
            let answer = &replies(server.request(Rank(0), &put))[0].1;
            if !answer.starts_with("cmd=put_result rc=0") {
                refused.get_or_insert((round * MAX_PUTS_PER_RANK + key, answer.clone()));
            }
        }
        server.request(Rank(0), "cmd=barrier_in");
        server.fence_done(Vec::new());
    }
    let (puts, answer) = refused.expect("it is not endless");
    assert_eq!(answer, "cmd=put_result rc=-1 msg=key_value_space_full");
    assert!(puts * value.len() <= MAX_KEPT_BYTES && puts * 1100 > MAX_KEPT_BYTES, "{puts} puts");
}

fn request() -> impl Strategy<Value = Request> {
    let word = "[a-zA-Z0-9_./:$#-]{1,40}";
    prop_oneof![
        (0u32..9, 0u32..9).prop_map(|(version, subversion)| Request::Init { version, subversion }),
        (word, word).prop_map(|(kvsname, key)| Request::Get { kvsname, key }),
        (word, word, "[ -~]{0,1024}").prop_map(|(kvsname, key, value)| Request::Put {
            kvsname,
            key,
            value
        }),
        any::<i32>().prop_map(|exit_code| Request::Abort { exit_code }),
        Just(Request::BarrierIn),
        Just(Request::SpawnBegin),
        word.prop_map(|service| Request::LookupName { service }),
    ]
}

proptest! {
    #[test]
    fn requests_round_trip(request in request()) {
        prop_assert_eq!(Request::parse(&request.to_string()), Ok(request));
    }

    #[test]
    fn get_results_round_trip(rc in any::<i32>(), msg in "[a-z_]{1,30}", value in "[ -~]{0,1024}") {
        let response = Response::GetResult { rc, msg, value };
        prop_assert_eq!(Response::parse(&response.to_string()), Ok(response));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Request::parse_bytes(&bytes).is_err() || bytes.len() >= 10);
        prop_assert!(Response::parse_bytes(&bytes).is_err() || bytes.len() >= 10);
    }

    #[test]
    fn hostile_lines_keep_one_answer_per_request(
        lines in prop::collection::vec(
            "(cmd=|mcmd=|)(init|get|put|barrier_in|spawn|abort|finalize|x)?( [a-z_]{0,8}=[ -~]{0,8}){0,4}",
            0..30,
        )
    ) {
        let mut server = server(&[0]);
        for line in lines {
            let outputs = server.request(Rank(0), &line);
            prop_assert!(outputs.len() <= 1);
            if let [Output::FenceReady { puts }] = &outputs[..] {
                prop_assert_eq!(server.fence_done(puts.clone()).len(), 1);
            }
        }
    }
}
