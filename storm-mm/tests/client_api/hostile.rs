//! Clients that do not keep to the protocol.

use crate::served::job;
use crate::served::{Served, on_runtime};
use crate::uploads::our_uid;
use std::time::Duration;
use storm_mm::api::{
    ApiError, Client, ClientError, ErrorCode, FromClient, MAX_REQUEST_LINE_BYTES, ManagerRequest,
    Reply, RequestLine, ServerLimits,
};
use storm_rm::{JobId, JobIncarnation, Program, StepAsk, StepLayout, StepSize, StepSpec};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

#[test]
fn an_unknown_request_is_told_which_there_are() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(|_| Reply::Ok);
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send(
            "{\"id\":9,\"request\":\"reboot\"}\nnonsense\n\n{\"id\":1,\"request\":\"nodes\"}\n",
        )
        .await;
        let error = raw.refusal().await;
        assert_eq!(error.code, ErrorCode::UnknownRequest);
        assert!(error.hint.is_some_and(|hint| hint.contains("explain")));
        assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest);
        assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest);
        assert_eq!(raw.reply().await.map(|line| line.reply), Some(Reply::Ok), "it goes on");
    });
}

#[test]
fn another_version_is_refused() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.send("{\"storm_api\":99,\"version\":\"9\"}\n").await;
        raw.lines.line().await.expect("readable").expect("its hello");
        assert_eq!(raw.refusal().await.code, ErrorCode::VersionMismatch);
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn a_manager_of_another_version_is_recognised() {
    on_runtime(async {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mm.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let manager = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            stream.write_all(b"{\"storm_api\":3,\"version\":\"2.0\"}\n").await.expect("it reads");
            stream
        };
        let (result, _stream) = tokio::join!(Client::connect(&path), manager);
        assert!(matches!(result, Err(ClientError::Version(3))), "{result:?}");
    });
}

#[test]
fn a_stranger_is_told_how_to_begin() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.send("GET / HTTP/1.1\r\n").await;
        raw.lines.line().await.expect("readable").expect("its hello");
        assert!(raw.refusal().await.hint.is_some_and(|hint| hint.contains("storm_api")));
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn a_line_without_end_is_cut_off() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        let block = vec![b'x'; MAX_REQUEST_LINE_BYTES / 4 + 1];
        for _ in 0..4 {
            // The server may close the connection as soon as it refuses the client.
            let _ = raw.write.write_all(&block).await;
        }
        assert_eq!(raw.refusal().await.code, ErrorCode::LineTooLong);
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn a_silent_connection_is_dropped() {
    on_runtime(async {
        let hello_timeout = Duration::from_millis(20);
        let served = Served::with(ServerLimits { hello_timeout, ..ServerLimits::default() }, 0);
        let mut raw = served.raw().await;
        raw.lines.line().await.expect("readable").expect("its hello");
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn bytes_that_nobody_asked_for_end_the_connection() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        let hash = "0".repeat(64);
        raw.send(&format!("{{\"request\":\"content\",\"hash\":\"{hash}\",\"size_bytes\":3}}\nabc"))
            .await;
        assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest);
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn one_client_too_many_is_turned_away_and_the_place_is_free_again() {
    on_runtime(async {
        let limits = ServerLimits { clients: 1, trusted: vec![], ..ServerLimits::default() };
        let served = Served::with(limits, 0);
        served.answer_with(|_| Reply::Ok);
        let mut first = served.raw().await;
        first.hello().await;
        let mut second = served.raw().await;
        second.lines.line().await.expect("readable").expect("its hello");
        assert_eq!(second.refusal().await.code, ErrorCode::TooManyClients);
        assert_eq!(second.reply().await, None);
        first.write.shutdown().await.expect("it is open");
        assert_eq!(first.reply().await, None);
        let mut third = served.raw().await;
        third.hello().await;
        third.send("{\"id\":1,\"request\":\"nodes\"}\n").await;
        assert_eq!(third.reply().await.map(|line| line.reply), Some(Reply::Ok));
    });
}

#[test]
fn one_user_does_not_take_the_places_of_all_and_none_is_taken_from_the_trusted() {
    on_runtime(async {
        let ours = our_uid();
        for (trusted, admitted) in [(vec![], 2), (vec![ours], 5)] {
            let limits = ServerLimits { clients_per_user: 2, trusted, ..ServerLimits::default() };
            let served = Served::with(limits, 0);
            served.answer_with(|_| Reply::Ok);
            let mut clients = Vec::new();
            for number in 0..5 {
                match Client::connect(&served.socket()).await {
                    Ok(mut client) => {
                        assert!(number < admitted);
                        client.call(ManagerRequest::Nodes).await.expect("an answer");
                        clients.push(client);
                    }
                    // Regression: the first request found a broken pipe instead.
                    Err(error) => {
                        assert!(number >= admitted);
                        assert_eq!(error.code(), Some(ErrorCode::TooManyClients), "{error:?}");
                    }
                }
            }
        }
    });
}

/// The core counts on the peer that it gets, and on files that the spool has.
#[test]
fn a_step_with_forged_numbers_reaches_the_core_as_its_peers_and_one_without_files_does_not() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        let program = Program::OnNodes("/bin/true".into());
        let step = |program| ManagerRequest::RunStep {
            job: JobId(u64::MAX),
            run: JobIncarnation(u64::MAX),
            ask: StepAsk(u64::MAX),
            size: StepSize::of_procs(u32::MAX),
            layout: StepLayout::default(),
            spec: Box::new(StepSpec::plain("true", program)),
        };
        let line = |id, request| {
            let line = RequestLine::Manager(id, request).encode().expect("it is written");
            String::from_utf8(line).expect("text")
        };
        raw.send(&line(1, step(program))).await;
        let call = served.call().await;
        assert_eq!(call.peer.uid, our_uid());
        let ManagerRequest::RunStep { job: asked, size, .. } = &call.request else {
            panic!("{call:?}")
        };
        assert_eq!((*asked, size.procs), (JobId(u64::MAX), u32::MAX));
        call.replies.refuse(ApiError::new(ErrorCode::NoSuchJob, "none")).expect("it reads");
        // A connection that may still get replies to a request is kept.
        drop(call);
        assert_eq!(raw.refusal().await.code, ErrorCode::NoSuchJob);
        for wrong in [
            "{\"id\":2,\"request\":\"run-step\",\"job\":1}\n",
            "{\"id\":3,\"request\":\"end-step\",\"job\":1,\"ask\":-1}\n",
            "{\"id\":4,\"request\":\"end-step\",\"job\":1,\"ask\":1,\"uid\":0}\n",
        ] {
            raw.send(wrong).await;
            assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest, "{wrong}");
        }
        // Its program is asked for, and other bytes end the connection before the core is asked.
        let spec = job(&[b"program"]).step;
        assert!(matches!(spec.program, Program::Shipped(_)) || !spec.files.is_empty());
        let ManagerRequest::RunStep { job: number, run, ask, size, .. } =
            step(Program::OnNodes("/bin/true".into()))
        else {
            unreachable!("it is a step")
        };
        let layout = StepLayout::default();
        let spec = Box::new(spec);
        let shipped = ManagerRequest::RunStep { job: number, run, ask, size, layout, spec };
        raw.send(&line(5, shipped)).await;
        let reply = raw.reply().await.map(|line| line.reply);
        assert!(matches!(reply, Some(Reply::NeedFiles { .. })), "{reply:?}");
        raw.send("{\"id\":6,\"request\":\"nodes\"}\n").await;
        assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest);
        assert_eq!(raw.reply().await, None);
        assert!(
            served.calls.is_empty()
                || matches!(served.calls.recv().await, Ok(FromClient::Left { .. }))
        );
    });
}
