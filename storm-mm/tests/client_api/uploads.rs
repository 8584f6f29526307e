//! Files arrive through the socket, once, and match their hashes.

use crate::served::{Served, job, on_runtime, submitted};
use std::fs::{self, File};
use std::io::Read;
use storm_mm::api::{
    Client, ClientError, ErrorCode, LineReader, ManagerRequest, Progress, Reply, ServerLimits,
    Submission, hash_file,
};
use storm_rm::{ContentHash, JobId, JobSpec};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

/// A file with this content, open.
fn file(content: &[u8]) -> File {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, content).expect("written");
    File::open(path).expect("it is there")
}

pub(crate) fn submission(spec: JobSpec, contents: &[&[u8]]) -> Submission {
    let files = contents.iter().map(|content| (ContentHash::of(content), file(content))).collect();
    Submission { spec, attach: false, service: Default::default(), reservation: None, files }
}

#[test]
fn a_file_is_sent_once() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(submitted);
        let program = vec![7; 3 << 20];
        let contents: [&[u8]; 3] = [&program, b"small", b""];
        let mut client = served.client().await;
        let mut last = Progress::default();
        let first = submission(job(&contents), &contents);
        client.submit(first, |progress| last = progress).await.expect("submitted");
        let total_bytes = program.len() as u64 + 5;
        assert_eq!(last, Progress { sent_bytes: total_bytes, total_bytes });
        let uid = our_uid();
        let mut stored = Vec::new();
        let mut spooled = served.spool.open(uid, &ContentHash::of(&program)).expect("stored");
        spooled.read_to_end(&mut stored).expect("readable");
        assert!(stored == program, "what is stored differs from what was sent");
        let again = submission(job(&contents), &contents);
        client.submit(again, |_| panic!("nothing is to be sent")).await.expect("submitted");
    });
}

#[test]
fn a_job_is_submitted_over_a_new_connection_however_long_its_request_is() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(submitted);
        let contents: [&[u8]; 1] = [b"small"];
        let mut long = job(&contents);
        long.step.env =
            [("LONG".into(), "x".repeat(1 << 20).as_str().into())].into_iter().collect();
        for spec in [job(&contents), long] {
            let job = submission(spec, &contents);
            let socket = served.socket();
            let (mut client, job, request) =
                Client::connect_and_submit(&socket, job, |_| {}).await.expect("submitted");
            assert_eq!((job, request), (JobId(7), 1));
            // Later requests have other numbers.
            let reply = client.call(ManagerRequest::Nodes).await.expect("answered");
            assert_eq!(reply, Reply::Submitted { job: JobId(7) });
        }
    });
}

/// The manager woke twice for each job.
#[test]
fn a_short_request_goes_with_the_hello_of_the_client() {
    on_runtime(async {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mm.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let manager = async {
            let (stream, _) = listener.accept().await.expect("a client");
            let (read, mut write) = stream.into_split();
            let mut lines = LineReader::new(read, 1 << 20);
            for beginning in ["{\"storm_api\":", "{\"id\":1,\"request\":\"submit\""] {
                let line = lines.line().await.expect("readable").expect("it is sent");
                assert!(line.starts_with(beginning.as_bytes()));
            }
            write.write_all(b"{\"storm_api\":3}\n").await.expect("it reads");
            (lines, write)
        };
        let job = submission(job(&[]), &[]);
        let (submitted, _open) =
            tokio::join!(Client::connect_and_submit(&path, job, |_| {}), manager);
        assert!(matches!(submitted, Err(ClientError::Version(3))), "{submitted:?}");
    });
}

/// Our user id, as the kernel reports it to the server.
pub(crate) fn our_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map(|found| found.uid()).expect("/proc is mounted")
}

#[test]
fn a_content_that_is_another_is_refused_and_the_client_can_go_on() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(submitted);
        let mut client = served.client().await;
        let files = vec![(ContentHash::of(b"good"), file(b"evil"))];
        let wrong = Submission {
            spec: job(&[b"good"]),
            attach: false,
            service: Default::default(),
            reservation: None,
            files,
        };
        let error = client.submit(wrong, |_| {}).await.expect_err("refused");
        assert_eq!(error.code(), Some(ErrorCode::WrongContent));
        assert!(served.spool.open(our_uid(), &ContentHash::of(b"good")).is_err());
        assert!(served.spool.open(our_uid(), &ContentHash::of(b"evil")).is_err());
        let right = submission(job(&[b"good"]), &[b"good"]);
        client.submit(right, |_| {}).await.expect("the same client, the right content");
    });
}

#[test]
fn a_file_over_the_limit_is_refused() {
    on_runtime(async {
        let served = Served::with(ServerLimits::default(), 1 << 10);
        served.answer_with(submitted);
        let content = vec![1; 4 << 20];
        let mut client = served.client().await;
        let large = submission(job(&[&content]), &[&content]);
        let error = client.submit(large, |_| {}).await.expect_err("refused");
        assert_eq!(error.code(), Some(ErrorCode::TooLarge), "{error:?}");
    });
}

#[test]
fn a_file_that_the_submission_lacks_is_an_error_here() {
    on_runtime(async {
        let served = Served::start();
        let mut client = served.client().await;
        let result = client.submit(submission(job(&[b"x"]), &[]), |_| {}).await;
        assert!(matches!(result, Err(ClientError::NoSuchFile(_))), "{result:?}");
    });
}

#[test]
fn a_client_that_vanishes_in_a_file_leaves_nothing() {
    on_runtime(async {
        let served = Served::start();
        let hash = ContentHash::of(b"0123456789");
        let mut raw = served.raw().await;
        raw.hello().await;
        let spec = serde_json::to_string(&job(&[b"0123456789"])).expect("encodes");
        raw.send(&format!("{{\"id\":1,\"request\":\"submit\",\"spec\":{spec}}}\n")).await;
        let reply = raw.reply().await.expect("a reply").reply;
        assert_eq!(reply, Reply::NeedFiles { hashes: vec![hash] });
        let header =
            format!("{{\"request\":\"content\",\"hash\":\"{hash}\",\"size_bytes\":10}}\n01234");
        raw.send(&header).await;
        drop(raw);
        // A second client is served: the first has stopped nothing.
        served.answer_with(submitted);
        let mut client = served.client().await;
        let again = submission(job(&[b"0123456789"]), &[b"0123456789"]);
        client.submit(again, |_| {}).await.expect("submitted");
        assert_eq!(served.spool.size_bytes(our_uid(), &hash), Some(10));
    });
}

#[test]
fn something_else_instead_of_a_file_ends_the_connection() {
    on_runtime(async {
        let served = Served::start();
        let mut raw = served.raw().await;
        raw.hello().await;
        let spec = serde_json::to_string(&job(&[b"x"])).expect("encodes");
        raw.send(&format!("{{\"id\":1,\"request\":\"submit\",\"spec\":{spec}}}\n")).await;
        raw.reply().await.expect("files are needed");
        raw.send("{\"id\":2,\"request\":\"nodes\"}\n").await;
        assert_eq!(raw.refusal().await.code, ErrorCode::BadRequest);
        assert_eq!(raw.reply().await, None);
    });
}

#[test]
fn a_hash_is_the_same_however_the_file_is_read() {
    for length in [0, 1, (1 << 20) - 1, 9 << 20] {
        let content: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        let hashed = hash_file(&mut file(&content)).expect("readable");
        assert_eq!(hashed, (ContentHash::of(&content), length as u64));
    }
}

#[test]
fn rights_to_a_content_are_its_users() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(submitted);
        let mut client = served.client().await;
        client.submit(submission(job(&[b"mine"]), &[b"mine"]), |_| {}).await.expect("submitted");
        let hash = ContentHash::of(b"mine");
        assert_eq!(served.spool.size_bytes(our_uid(), &hash), Some(4));
        assert_eq!(served.spool.size_bytes(our_uid() + 1, &hash), None, "a hash is no key");
        let request = client.call(ManagerRequest::Nodes).await;
        assert!(request.is_ok());
    });
}
