//! Requests reach the core, answers reach the client.

use crate::served::{Served, job, on_runtime, submitted};
use jiff::Timestamp;
use storm_mm::api::{
    ClientEnd, ErrorCode, HistoryQuery, JOBS_PER_LINE, JobFilter, JobState, JobView,
    ManagerRequest, Reply, Submission, UserView,
};
use storm_rm::{ContentHash, Environment, JobId, MPI_SPACE_VARIABLE};
use tokio::io::AsyncWriteExt;

pub(crate) fn view(id: u64) -> JobView {
    JobView {
        id: JobId(id),
        name: "sweep3d".to_owned(),
        user: UserView { uid: 0, name: "root".to_owned() },
        partition: "main".to_owned(),
        sched: "gang".to_owned(),
        state: JobState::Running,
        procs: 4,
        resources: storm_rm::Resources::default(),
        nodes_asked: None,
        nodes: 1,
        node_list: "n1".to_owned(),
        row: None,
        submitted: Timestamp::UNIX_EPOCH,
        started: None,
        ended: None,
        array: None,
        array_limit: None,
        ran_s: 0,
        elapsed_s: 0,
        time_limit_s: None,
        remarks: Default::default(),
        reason: None,
        reason_code: None,
        ending: false,
        estimate: None,
        exit_code: None,
        attributes: None,
        steps: Vec::new(),
        place: None,
    }
}

#[test]
fn a_long_listing_arrives_whole() {
    on_runtime(async {
        let served = Served::start();
        let count = 3 * JOBS_PER_LINE as u64 + 1;
        served.answer_with(move |_| Reply::Jobs {
            jobs: (1..=count).map(view).collect(),
            more: false,
        });
        let mut client = served.client().await;
        let reply =
            client.call(ManagerRequest::Jobs(JobFilter::default())).await.expect("answered");
        let Reply::Jobs { jobs, more: false } = reply else { panic!("{reply:?}") };
        assert_eq!(jobs, (1..=count).map(view).collect::<Vec<_>>());
    });
}

/// Jobs do not end in the order of their numbers, and the job after which a part begins may be
/// forgotten.
#[test]
fn a_history_goes_on_behind_places_that_no_client_sees() {
    const COUNT: u64 = 300;
    on_runtime(async {
        let served = Served::start();
        let ended = |place: u64| JobView { place: Some(place), ..view(1 + place * 7 % 1_000) };
        let all = || (0..COUNT).rev().map(|n| 10 + 2 * n);
        served.answer_with(move |request| {
            let ManagerRequest::History(HistoryQuery { part: Some(part), .. }) = request else {
                panic!("{request:?}")
            };
            // The places in between belong to forgotten jobs.
            let before = part.after.map_or(u64::MAX, |place| place - 1);
            let left = || all().filter(|place| *place < before);
            let jobs = left().take(part.most).map(ended).collect();
            Reply::Jobs { jobs, more: left().count() > part.most }
        });
        let mut client = served.client().await;
        let query = HistoryQuery { limit: u32::MAX, ..HistoryQuery::default() };
        let reply = client.call(ManagerRequest::History(query)).await.expect("answered");
        let Reply::Jobs { jobs, more: false } = reply else { panic!("{reply:?}") };
        let expected = all().map(|place| JobView { place: None, ..ended(place) });
        assert_eq!(jobs, expected.collect::<Vec<_>>());
    });
}

/// A job without files and without an environment.
fn submission() -> Submission {
    Submission {
        spec: job(&[]),
        attach: false,
        service: Default::default(),
        reservation: None,
        files: Vec::new(),
    }
}

#[test]
fn the_peer_owns_its_job_whatever_it_says() {
    on_runtime(async {
        let served = Served::start();
        let mut client = served.client().await;
        let submitting = client.submit(submission(), |_| {});
        let core = async {
            let call = served.call().await;
            let ManagerRequest::Submit { spec, attach: false, .. } = &call.request else {
                panic!("{:?}", call.request)
            };
            assert_eq!(spec.owner.uid, call.peer.uid);
            assert_ne!(spec.owner.uid, 4242);
            assert_eq!(call.peer.pid, std::process::id().cast_signed());
            call.replies.send(submitted(&call.request)).expect("it waits");
        };
        let (result, ()) = tokio::join!(submitting, core);
        assert_eq!(result.expect("submitted").0, JobId(7));
    });
}

/// The environment that the core receives for a job without one.
async fn environment_that_arrives(served: &Served) -> Environment {
    let mut client = served.client().await;
    let core = async {
        let call = served.call().await;
        let ManagerRequest::Submit { spec, .. } = &call.request else {
            panic!("{:?}", call.request)
        };
        let env = spec.step.env.clone();
        call.replies.send(submitted(&call.request)).expect("it waits");
        env
    };
    let (result, env) = tokio::join!(client.submit(submission(), |_| {}), core);
    result.expect("submitted");
    env
}

#[test]
fn jobs_of_a_manager_have_one_space_and_those_of_another_a_different_one() {
    on_runtime(async {
        let (served, other) = (Served::start(), Served::start());
        let env = environment_that_arrives(&served).await;
        assert!(env.iter().any(|(name, _)| name.as_os_str() == MPI_SPACE_VARIABLE), "{env:?}");
        // Equal, so that the core keeps the environment once.
        assert_eq!(environment_that_arrives(&served).await, env);
        assert_ne!(environment_that_arrives(&other).await, env);
    });
}

#[test]
fn a_request_that_the_core_drops_is_answered_all_the_same() {
    on_runtime(async {
        let served = Served::start();
        let mut client = served.client().await;
        let asking = client.call(ManagerRequest::Nodes);
        let core = async { drop(served.call().await) };
        let (result, ()) = tokio::join!(asking, core);
        assert_eq!(result.expect_err("no answer").code(), Some(ErrorCode::Internal));
    });
}

#[test]
fn the_last_answer_is_delivered_when_the_core_ends() {
    on_runtime(async {
        let served = Served::start();
        let mut client = served.client().await;
        let asking = client.call(ManagerRequest::Shutdown);
        let core = async {
            let call = served.call().await;
            call.replies.send(Reply::Ok).expect("it waits");
            served.calls.close();
        };
        let (result, ()) = tokio::join!(asking, core);
        assert_eq!(result.expect("answered"), Reply::Ok);
        served.server.await.expect("the server ends by itself");
    });
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answers() {
    on_runtime(async {
        let served = Served::start();
        served.answer_with(|_| Reply::Ok);
        let mut raw = served.raw().await;
        raw.hello().await;
        raw.send("{\"id\":1,\"request\":\"status\"}\n{\"id\":2,\"request\":\"nodes\"}\n").await;
        raw.write.shutdown().await.expect("it is open");
        assert_eq!(raw.reply().await.map(|line| line.id), Some(1));
        assert_eq!(raw.reply().await.map(|line| line.id), Some(2));
        assert_eq!(raw.reply().await, None, "then the server hangs up");
    });
}

/// The kernel ends the stream of a process that ends, so the end is meant wherever it comes. A
/// client that the manager turns out may come back.
#[test]
fn the_core_hears_that_a_client_of_this_host_has_left() {
    on_runtime(async {
        let served = Served::start();
        let nodes = "{\"id\":1,\"request\":\"nodes\"}\n";
        let hash = ContentHash::of(b"");
        let unasked = format!("{{\"request\":\"content\",\"hash\":\"{hash}\",\"size_bytes\":0}}\n");
        let follow = "{\"id\":1,\"request\":\"attach\",\"job\":7}\n";
        for (asked, more, end) in [
            (nodes, "", ClientEnd::Meant),
            (follow, "", ClientEnd::Meant),
            (nodes, "{\"id\":2,\"no", ClientEnd::Meant),
            (nodes, unasked.as_str(), ClientEnd::Broken),
        ] {
            let mut raw = served.raw().await;
            raw.hello().await;
            raw.send(asked).await;
            let call = served.call().await;
            raw.send(more).await;
            if end == ClientEnd::Meant {
                drop(raw);
            }
            assert_eq!(served.left().await, (call.client, end), "{asked}{more}");
        }
    });
}
