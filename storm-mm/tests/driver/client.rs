//! A client of the manager, without a socket.

use bytes::Bytes;
use storm_mm::api::{
    Call, ClientId, FromClient, HistoryQuery, JobDetail, JobFilter, JobState, JobView,
    LaunchBreakdown, ManagerRequest, NodeView, Peer, Reply, ReplyStream, reply_channel,
};
use storm_rm::message::Stream;
use storm_rm::{FileSpec, InputSpec, JobId, JobSpec, Program, Rank};

/// Room for replies that this client does not read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The user of the tests.
pub(crate) const USER: Peer = Peer { uid: 1000, gid: 1000, pid: 1, by_door: false };
/// An administrator.
pub(crate) const ROOT: Peer = Peer { uid: 0, gid: 0, pid: 1, by_door: false };

/// Sends the manager a request.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) calls: async_channel::Sender<FromClient>,
    pub(crate) peer: Peer,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) state: JobState,
    pub(crate) exit_code: u8,
    pub(crate) reason: Option<String>,
    pub(crate) breakdown: Option<LaunchBreakdown>,
}

/// An attached client's end of the stream.
pub(crate) struct Following {
    pub(crate) job: JobId,
    pub(crate) replies: ReplyStream,
    pub(crate) output: Vec<(Rank, Stream, Vec<u8>)>,
    pub(crate) states: Vec<JobState>,
}

impl Client {
    /// Sends a request; the stream of its replies.
    pub(crate) async fn send(&self, request: ManagerRequest) -> ReplyStream {
        self.send_with(request, BUFFER_BYTES).await
    }

    /// The same with a buffer of `limit_bytes`.
    pub(crate) async fn send_with(
        &self,
        request: ManagerRequest,
        limit_bytes: usize,
    ) -> ReplyStream {
        self.try_send_with(request, limit_bytes).await.expect("the manager takes calls")
    }

    /// Sends a request to a manager that may be dead.
    pub(crate) async fn try_send(&self, request: ManagerRequest) -> Option<ReplyStream> {
        self.try_send_with(request, BUFFER_BYTES).await
    }

    async fn try_send_with(
        &self,
        request: ManagerRequest,
        limit_bytes: usize,
    ) -> Option<ReplyStream> {
        let streaming = matches!(
            request,
            ManagerRequest::Attach { .. }
                | ManagerRequest::Wait { .. }
                | ManagerRequest::Submit { attach: true, .. }
        );
        let replies = reply_channel(limit_bytes);
        let sink = replies.sink(1, streaming);
        let client = ClientId::MANAGER;
        let call = FromClient::Call(Call { peer: self.peer, client, request, replies: sink });
        self.calls.send(call).await.ok()?;
        Some(replies)
    }

    /// The only reply to a request.
    pub(crate) async fn ask(&self, request: ManagerRequest) -> Reply {
        let replies = self.send(request).await;
        replies.next().await.expect("an answer").reply
    }

    pub(crate) async fn submit(&self, spec: JobSpec) -> JobId {
        match self
            .ask(ManagerRequest::Submit {
                spec: Box::new(spec),
                attach: false,
                service: Default::default(),
                reservation: None,
            })
            .await
        {
            Reply::Submitted { job } => job,
            other => panic!("not submitted: {other:?}"),
        }
    }

    pub(crate) async fn run(&self, spec: JobSpec) -> Following {
        self.run_with(spec, BUFFER_BYTES).await
    }

    pub(crate) async fn run_with(&self, spec: JobSpec, limit_bytes: usize) -> Following {
        let request = ManagerRequest::Submit {
            spec: Box::new(spec),
            attach: true,
            service: Default::default(),
            reservation: None,
        };
        let replies = self.send_with(request, limit_bytes).await;
        match replies.next().await.expect("an answer").reply {
            Reply::Submitted { job } => Following::new(job, replies),
            other => panic!("not submitted: {other:?}"),
        }
    }

    pub(crate) async fn attach(&self, job: JobId) -> Following {
        let replies = self.send(ManagerRequest::Attach { job }).await;
        match replies.next().await.expect("an answer").reply {
            Reply::Attached { job, .. } => Following::new(job, replies),
            other => panic!("not attached: {other:?}"),
        }
    }

    pub(crate) async fn cancel(&self, job: JobId) {
        let reply = self
            .ask(ManagerRequest::Cancel { jobs: vec![job], signal: None, states: Vec::new() })
            .await;
        let Reply::Cancelled { jobs } = reply else { panic!("not cancelled: {reply:?}") };
        assert_eq!((jobs[0].job, &jobs[0].error), (job, &None));
    }

    pub(crate) async fn show(&self, job: JobId) -> JobDetail {
        match self.ask(ManagerRequest::Show { job }).await {
            Reply::Job { job } => *job,
            other => panic!("not shown: {other:?}"),
        }
    }

    pub(crate) async fn queue(&self) -> Vec<JobView> {
        match self.ask(ManagerRequest::Jobs(JobFilter::default())).await {
            Reply::Jobs { jobs, .. } => jobs,
            other => panic!("no listing: {other:?}"),
        }
    }

    pub(crate) async fn history(&self) -> Vec<JobView> {
        let query = HistoryQuery { limit: u32::MAX, ..HistoryQuery::default() };
        match self.ask(ManagerRequest::History(query)).await {
            Reply::Jobs { jobs, .. } => jobs,
            other => panic!("no listing: {other:?}"),
        }
    }

    pub(crate) async fn nodes(&self) -> Vec<NodeView> {
        match self.ask(ManagerRequest::Nodes).await {
            Reply::Nodes { nodes } => nodes,
            other => panic!("no listing: {other:?}"),
        }
    }
}

impl Following {
    pub(crate) fn new(job: JobId, replies: ReplyStream) -> Following {
        Following { job, replies, output: Vec::new(), states: Vec::new() }
    }

    /// Reads up to the next change of state. `None` when the job is over, with its end.
    pub(crate) async fn next_state(&mut self) -> Result<JobState, End> {
        loop {
            match self.replies.next().await.expect("the job's events").reply {
                Reply::State { job, state, .. } => {
                    assert_eq!(job, self.job);
                    self.states.push(state);
                    return Ok(state);
                }
                Reply::Output { rank, stream, data, .. } => {
                    self.output.push((rank, stream, data.to_vec()));
                }
                Reply::Ended { state, exit_code, reason, breakdown, .. } => {
                    return Err(End { state, exit_code, reason, breakdown });
                }
                other => panic!("no event of a job: {other:?}"),
            }
        }
    }

    pub(crate) async fn until(&mut self, wanted: JobState) {
        loop {
            match self.next_state().await {
                Ok(state) if state == wanted => return,
                Ok(_) => {}
                Err(end) => panic!("job {} ended before it was {wanted}: {end:?}", self.job),
            }
        }
    }

    pub(crate) async fn end(&mut self) -> End {
        loop {
            if let Err(end) = self.next_state().await {
                return end;
            }
        }
    }

    /// Everything that a rank wrote to standard output.
    pub(crate) fn stdout(&self, rank: u32) -> Vec<u8> {
        let of_rank = self.output.iter().filter(|(r, s, _)| (r.0, *s) == (rank, Stream::Stdout));
        of_rank.flat_map(|(_, _, data)| data.clone()).collect()
    }
}

/// A job of `procs` ranks, whose actions are in `argv` (see the cluster's programs).
pub(crate) fn job(procs: u32, argv: &[&str]) -> JobSpec {
    let plain = JobSpec::plain(argv[0], Program::OnNodes("/bin/program".into()));
    let mut spec = JobSpec { procs, ..plain };
    spec.step.argv = argv.iter().map(|arg| (*arg).into()).collect();
    spec
}

/// The same job with its program shipped.
pub(crate) fn shipped(mut spec: JobSpec, file: FileSpec) -> JobSpec {
    spec.step.program = Program::Shipped(file);
    spec
}

/// The same job with this source of standard input.
pub(crate) fn reading(input: InputSpec, mut spec: JobSpec) -> JobSpec {
    spec.step.input = input;
    spec
}

/// A request to write to the job's standard input.
pub(crate) fn input(job: JobId, data: &'static [u8], eof: bool) -> ManagerRequest {
    ManagerRequest::Input { job, data: Bytes::from_static(data), eof, resent_from: None, ask: None }
}
