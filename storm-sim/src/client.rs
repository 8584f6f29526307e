//! A client of a simulated Machine Manager: its calls, without a socket.

use storm_mm::api::{Call, ClientId, FromClient, ManagerRequest, Peer, Reply, reply_channel};
use storm_rm::{JobId, JobSpec};

/// Room for replies.
const BUFFER_BYTES: usize = 1 << 20;
/// Calls that may wait for the manager.
pub(crate) const CALLS: usize = 64;
/// The user who makes all requests, owns all simulated jobs and administers the machine.
pub(crate) const USER: Peer = Peer { uid: 1000, gid: 1000, pid: 1, by_door: false };

/// Sends requests to one incarnation of the Machine Manager.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) calls: async_channel::Sender<FromClient>,
}

impl Client {
    /// The only reply to a request; `None` if the manager ends before it answers.
    pub async fn ask(&self, request: ManagerRequest) -> Option<Reply> {
        let replies = reply_channel(BUFFER_BYTES);
        let replies_to = replies.sink(1, false);
        let client = ClientId::MANAGER;
        let call = FromClient::Call(Call { peer: USER, client, request, replies: replies_to });
        self.calls.send(call).await.ok()?;
        replies.next().await.map(|line| line.reply)
    }

    /// Submits a job. Returns its number, or the reason of its refusal. `None` if no manager
    /// answers.
    pub async fn submit(&self, spec: JobSpec) -> Option<Result<JobId, storm_mm::api::ApiError>> {
        let request = ManagerRequest::Submit {
            spec: Box::new(spec),
            attach: false,
            service: Default::default(),
            reservation: None,
        };
        match self.ask(request).await? {
            Reply::Submitted { job } => Some(Ok(job)),
            Reply::Error { error } => Some(Err(error)),
            _ => None,
        }
    }
}
