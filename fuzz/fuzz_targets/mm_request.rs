//! The lines that clients send the Machine Manager: cut out of a stream that arrives in
//! pieces, none longer than the limit, and read as requests.

#![no_main]

use futures_util::FutureExt;
use libfuzzer_sys::fuzz_target;
use std::pin::Pin;
use std::task::{Context, Poll};
use storm_fuzz::{job_spec, plant};
use storm_mm::api::{HistoryQuery, JobFilter, LineError, LineReader, ManagerRequest, RequestLine};
use storm_rm::{JobId, JobIncarnation, StepAsk, StepLayout, StepSize};
use tokio::io::{AsyncRead, ReadBuf};

/// Longest line here.
const LIMIT_BYTES: usize = 4096;

/// A stream that gives a limited number of bytes at a time.
struct Pieces<'a> {
    left: &'a [u8],
    piece: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let len = self.piece.min(self.left.len()).min(into.remaining());
        let (now, later) = self.left.split_at(len);
        into.put_slice(now);
        self.left = later;
        Poll::Ready(Ok(()))
    }
}

/// A conversation, and each of its lines.
fn requests() -> Vec<Vec<u8>> {
    let (job, spec) = (JobId(1), Box::new(job_spec(4, true, true)));
    let requests = [
        ManagerRequest::Submit {
            spec: spec.clone(),
            attach: true,
            service: Default::default(),
            reservation: None,
        },
        ManagerRequest::RunStep {
            job,
            run: JobIncarnation(1),
            ask: StepAsk(1),
            size: StepSize::of_procs(2),
            layout: StepLayout::default(),
            spec: Box::new(spec.step.clone()),
        },
        ManagerRequest::Input { job, data: "text".into(), eof: true, resent_from: None, ask: None },
        ManagerRequest::Jobs(JobFilter::default()),
        ManagerRequest::Cancel { jobs: vec![job], signal: Some(10), states: Vec::new() },
        ManagerRequest::History(HistoryQuery::default()),
        ManagerRequest::Status,
    ];
    let line = |request| RequestLine::Manager(1, request).encode().expect("it is written");
    // The first byte is the length of the pieces.
    let lines: Vec<Vec<u8>> = requests.map(|request| [vec![64], line(request)].concat()).into();
    let content = br#"@{"request":"content","hash":"00","size_bytes":3}"#.to_vec();
    [vec![lines.concat(), content], lines].concat()
}

fuzz_target!(init: plant(requests()), |input: &[u8]| {
    let Some((piece, stream)) = input.split_first() else { return };
    let piece = usize::from(*piece).max(1);
    let mut lines = LineReader::new(Pieces { left: stream, piece }, LIMIT_BYTES);
    let mut expected = stream.split(|byte| *byte == b'\n');
    loop {
        let line = match lines.line().now_or_never().expect("bytes are there") {
            Ok(Some(line)) => line,
            Ok(None) | Err(LineError::Truncated) => break,
            Err(LineError::TooLong { .. }) => {
                assert!(expected.next().is_some_and(|line| line.len() > LIMIT_BYTES));
                break;
            }
            Err(LineError::Io(error)) => panic!("{error}"),
        };
        assert_eq!(Some(&line[..]), expected.next());
        if let Ok(request) = RequestLine::parse(&line) {
            let mut encoded = request.encode().expect("what was read is written");
            assert_eq!(encoded.pop(), Some(b'\n'));
            assert!(!encoded.contains(&b'\n'));
            assert_eq!(RequestLine::parse(&encoded), Ok(request));
        }
    }
});
