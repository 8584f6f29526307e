//! Clients that do not keep to the protocol.

use crate::served::{Served, on_runtime};
use crate::uploads::our_uid;
use std::time::Duration;
use storm_mm::api::{
    Client, ClientError, ErrorCode, MAX_REQUEST_LINE_BYTES, ManagerRequest, Reply, ServerLimits,
};
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
