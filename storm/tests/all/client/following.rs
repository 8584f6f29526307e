//! `run` on a cluster: output, input, interruption and exit status.

use super::served::{Served, stderr, stdout};
use async_channel::Receiver;
use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use storm_mm::api::{Call, CancelOutcome, JobState, ManagerRequest, Reply, ReplySink};
use storm_rm::message::Stream;
use storm_rm::{JobId, JobIncarnation, Rank};

const JOB: JobId = JobId(7);
const RUN: JobIncarnation = JobIncarnation(1);

async fn call(calls: &Receiver<Call>) -> Call {
    calls.recv().await.expect("a call")
}

/// The destination of a job's events, and the position of each stream of its ranks.
struct Events {
    replies: ReplySink,
    written: RefCell<BTreeMap<(u32, bool), u64>>,
}

async fn take_job(calls: &Receiver<Call>) -> Events {
    let call = call(calls).await;
    assert!(matches!(call.request, ManagerRequest::Submit { attach: true, .. }));
    call.replies.send(Reply::Submitted { job: JOB }).expect("it waits");
    let state = JobState::Running;
    let node_list = Some("n1".to_owned());
    let running = Reply::State { job: JOB, state, run: RUN, away: false, reason: None, node_list };
    call.replies.send(running).expect("it waits");
    Events { replies: call.replies, written: RefCell::default() }
}

/// Takes the request to end the job.
async fn take_cancellation(calls: &Receiver<Call>) {
    let cancel = call(calls).await;
    assert_eq!(
        cancel.request,
        ManagerRequest::Cancel { jobs: vec![JOB], signal: None, states: Vec::new() }
    );
    let jobs = vec![CancelOutcome { job: JOB, error: None }];
    cancel.replies.send(Reply::Cancelled { jobs }).expect("it waits");
}

async fn take_end_of_input(calls: &Receiver<Call>) {
    let call = call(calls).await;
    let end = ManagerRequest::Input {
        job: JOB,
        data: Bytes::new(),
        eof: true,
        resent_from: None,
        ask: None,
    };
    assert_eq!(call.request, end);
    call.replies.send(Reply::Ok).expect("it waits");
}

fn write(events: &Events, rank: u32, stream: Stream, data: &'static str) {
    let data = Bytes::from_static(data.as_bytes());
    let mut written = events.written.borrow_mut();
    let end = written.entry((rank, stream == Stream::Stderr)).or_default();
    let offset = std::mem::replace(end, *end + data.len() as u64);
    let output = Reply::Output { job: JOB, run: RUN, rank: Rank(rank), stream, offset, data };
    events.replies.send(output).expect("it reads");
}

fn end(events: &Events, state: JobState, exit_code: u8) {
    let reason = (state != JobState::Completed).then(|| "rank 1 said so".to_owned());
    let ended = Reply::Ended { job: JOB, state, exit_code, reason, breakdown: None };
    events.replies.send(ended).expect("it reads");
}

#[test]
fn output_comes_as_it_was_written_and_the_status_is_the_jobs() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        take_end_of_input(&calls).await;
        write(&events, 0, Stream::Stdout, "half ");
        write(&events, 1, Stream::Stderr, "oops\n");
        write(&events, 0, Stream::Stdout, "a line, no end");
        end(&events, JobState::Failed, 139);
    });
    let output = served.command(&["run", "true"]).stdin(Stdio::null()).output().expect("started");
    assert_eq!(stdout(&output), "half a line, no end");
    let told = "oops\nstorm: job 7 ended FAILED, exit status 139: rank 1 said so\n";
    assert_eq!(stderr(&output), told);
    assert_eq!(output.status.code(), Some(139));
    served.end();
}

#[test]
fn labelled_lines_are_whole() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        take_end_of_input(&calls).await;
        write(&events, 0, Stream::Stdout, "ze");
        write(&events, 1, Stream::Stdout, "one\n");
        write(&events, 0, Stream::Stdout, "ro\nrest");
        end(&events, JobState::Completed, 0);
    });
    let output =
        served.command(&["run", "--label", "true"]).stdin(Stdio::null()).output().expect("started");
    assert_eq!(stdout(&output), "1: one\n0: zero\n0: rest\n");
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
    served.end();
}

#[test]
fn input_reaches_the_job_in_order_and_ends() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        let mut received = Vec::new();
        loop {
            let call = call(&calls).await;
            let ManagerRequest::Input { data, eof, .. } = call.request else { panic!("no input") };
            received.extend_from_slice(&data);
            call.replies.send(Reply::Ok).expect("it waits");
            if eof {
                break;
            }
        }
        let data = Bytes::from(received);
        let (rank, stream) = (Rank(0), Stream::Stdout);
        let output = Reply::Output { job: JOB, run: RUN, rank, stream, offset: 0, data };
        events.replies.send(output).expect("it reads");
        end(&events, JobState::Completed, 0);
    });
    let mut child = served
        .command(&["run", "true"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let text: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&text).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.stdout == text, "{} bytes of {}", output.stdout.len(), text.len());
    served.end();
}

#[test]
fn an_interruption_cancels_the_job() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        take_end_of_input(&calls).await;
        write(&events, 0, Stream::Stdout, "up\n");
        take_cancellation(&calls).await;
        write(&events, 0, Stream::Stdout, "!\n");
        // The test interrupts once more at once, which counts as the same interruption.
        take_go_on(&calls).await;
        write(&events, 0, Stream::Stdout, "saved\n");
        end(&events, JobState::Cancelled, 143);
    });
    let mut child = served
        .command(&["run", "--quiet", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut up = [0; 3];
    child.stdout.as_mut().expect("piped").read_exact(&mut up).expect("it is up");
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGINT).expect("it lives");
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut [0; 2]).expect("it has cancelled");
    kill(pid, Signal::SIGTERM).expect("it lives");
    assert_eq!(served.storm(&["nodes"]).status.code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("it is text");
    assert_eq!(rest, "saved\n");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    served.end();
}

#[test]
fn a_manager_that_dies_is_not_a_job_that_failed() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        take_end_of_input(&calls).await;
        drop(events);
    });
    let output = served.command(&["run", "true"]).stdin(Stdio::null()).output().expect("started");
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    served.end();
}

#[test]
fn a_reader_that_leaves_wants_no_more_of_the_job() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        take_end_of_input(&calls).await;
        write(&events, 0, Stream::Stdout, "up\n");
        // The test asks for the nodes when the reader has left.
        take_go_on(&calls).await;
        write(&events, 0, Stream::Stdout, "more\n");
        take_cancellation(&calls).await;
        write(&events, 0, Stream::Stdout, "the last\n");
        end(&events, JobState::Cancelled, 143);
    });
    let mut child = served
        .command(&["run", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut [0; 3]).expect("it is up");
    drop(out);
    assert_eq!(served.storm(&["nodes"]).status.code(), Some(0));
    assert_eq!(child.wait().expect("it ends").code(), Some(141));
    served.end();
}

/// Another command of the test gives the signal to continue.
async fn take_go_on(calls: &Receiver<Call>) {
    let call = call(calls).await;
    assert_eq!(call.request, ManagerRequest::Nodes);
    call.replies.send(Reply::Nodes { nodes: Vec::new() }).expect("it waits");
}

/// Checks that the client reports the failure and cancels the job without sending the end of input.
fn refuses_input(input: File, after_bytes: usize, why: &str) {
    let served = Served::start(async move |calls| {
        let events = take_job(&calls).await;
        let mut received = 0;
        let cancel = loop {
            let call = call(&calls).await;
            let ManagerRequest::Input { data, eof, .. } = &call.request else { break call };
            assert!(!eof, "what breaks off has no end");
            received += data.len();
            call.replies.send(Reply::Ok).expect("it waits");
        };
        assert!(received <= after_bytes, "{received} bytes");
        assert!(matches!(cancel.request, ManagerRequest::Cancel { .. }), "{:?}", cancel.request);
        let jobs = vec![CancelOutcome { job: JOB, error: None }];
        cancel.replies.send(Reply::Cancelled { jobs }).expect("it waits");
        end(&events, JobState::Cancelled, 143);
    });
    let output = served.command(&["run", "cat"]).stdin(input).output().expect("started");
    let told = format!(
        "storm: standard input cannot be read, so job 7 is cancelled: {why}\n  try: give `< \
         /dev/null` or --input none to a job that reads nothing\n"
    );
    assert_eq!((stderr(&output), output.status.code()), (told, Some(125)));
    served.end();
}

#[test]
fn an_input_that_breaks_off_is_no_end_of_input() {
    let root = File::open("/").expect("a directory can be opened");
    refuses_input(root, 0, "Is a directory (os error 21)");
    // A process's memory ends after each of its mappings.
    let mut memory = File::open("/proc/self/mem").expect("it is ours");
    refuses_input(memory.try_clone().expect("a descriptor"), 0, "Input/output error (os error 5)");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is ours");
    let address = |hex: &str| u64::from_str_radix(hex, 16).expect("an address");
    let readable: Vec<(u64, u64)> = maps
        .lines()
        .filter(|line| line.contains(" r"))
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
        .map(|(from, to)| (address(from), address(to)))
        .collect();
    let gap = readable.windows(2).find(|pair| pair[0].1 < pair[1].0).expect("there are gaps");
    memory.seek(SeekFrom::Start(gap[0].1 - 4096)).expect("a position");
    refuses_input(memory, 4096, "Input/output error (os error 5)");
}

#[test]
fn an_input_that_does_not_block_is_waited_for() {
    let served = Served::start(async |calls| {
        let events = take_job(&calls).await;
        for expected in ["one", "two"] {
            let call = call(&calls).await;
            let data = Bytes::from_static(expected.as_bytes());
            assert_eq!(
                call.request,
                ManagerRequest::Input { job: JOB, data, eof: false, resent_from: None, ask: None }
            );
            call.replies.send(Reply::Ok).expect("it waits");
            write(&events, 0, Stream::Stdout, "!");
        }
        take_end_of_input(&calls).await;
        end(&events, JobState::Completed, 0);
    });
    let (read, mut write) = std::io::pipe().expect("a pipe");
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe may");
    let mut command = served.command(&["run", "cat"]);
    let mut child = command.stdin(read).stdout(Stdio::piped()).spawn().expect("started");
    drop(command);
    let mut out = child.stdout.take().expect("piped");
    for text in ["one", "two"] {
        write.write_all(text.as_bytes()).expect("it reads");
        out.read_exact(&mut [0]).expect("it has come");
    }
    drop(write);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    served.end();
}

#[test]
fn an_input_that_is_closed_or_cannot_be_read_from_has_ended() {
    // nohup(1) leaves a terminal as the second one.
    for redirection in ["<&-", "0>/dev/null"] {
        let served = Served::start(async |calls| {
            let events = take_job(&calls).await;
            take_end_of_input(&calls).await;
            end(&events, JobState::Completed, 0);
        });
        let storm = served.command(&[]).get_program().to_owned();
        let line = format!("exec {} run cat {redirection}", storm.display());
        let mut command = Command::new("sh");
        let command = command.args(["-c", &line]).env("STORM_SOCKET", served.path("mm.sock"));
        let output = command.output().expect("a shell");
        assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)), "{line}");
        served.end();
    }
}
