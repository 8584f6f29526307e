//! Listings of jobs: the core is asked for one part after the other, each when the client has
//! taken the one before. A client that does not read costs the manager one part.

use super::connection::Connection;
use crate::api::{
    ApiError, Call, ErrorCode, JobView, ManagerRequest, Part, Reply, ReplyStream, reply_channel,
};
use std::future::poll_fn;

/// Jobs in a part: some tens of kilobytes, kept for every client that has stopped reading.
const LISTED_TOGETHER: usize = 64;

impl Connection {
    /// Answers a request for a listing.
    pub(super) async fn list(&self, replies: &ReplyStream, id: u64, mut request: ManagerRequest) {
        let sink = replies.sink(id, false);
        begin(&mut request);
        // `false`: the client is gone.
        while poll_fn(|context| replies.outgoing.poll_taken(context)).await {
            let part = reply_channel(self.limits.outgoing_bytes);
            let call =
                Call { peer: self.peer, request: request.clone(), replies: part.sink(id, false) };
            if self.calls.send(call).await.is_err() {
                let error = ApiError::new(ErrorCode::ShuttingDown, "the cluster is going down");
                let _ = sink.refuse(error);
                return;
            }
            // The core says so itself where it has no answer.
            let Some(line) = part.next().await else { return };
            let reply = match line.reply {
                Reply::Jobs { jobs, more } => {
                    let more = more && go_on(&mut request, &jobs);
                    Reply::Jobs { jobs, more }
                }
                other => other,
            };
            let more = matches!(reply, Reply::Jobs { more: true, .. });
            if sink.send(reply).is_err() || !more {
                return;
            }
        }
    }
}

/// Has the request ask for the first part.
fn begin(request: &mut ManagerRequest) {
    if let Some(part) = part_of(request) {
        *part = Some(Part { after: None, most: LISTED_TOGETHER });
    }
}

/// Has the request ask for what follows `listed`; `false` when nothing does.
fn go_on(request: &mut ManagerRequest, listed: &[JobView]) -> bool {
    if let ManagerRequest::History(query) = request {
        let listed = u32::try_from(listed.len()).unwrap_or(u32::MAX);
        query.limit = query.limit.saturating_sub(listed);
    }
    let (Some(part), Some(last)) = (part_of(request), listed.last()) else { return false };
    *part = Some(Part { after: Some(last.id), most: LISTED_TOGETHER });
    true
}

fn part_of(request: &mut ManagerRequest) -> Option<&mut Option<Part>> {
    match request {
        ManagerRequest::Jobs(filter) => Some(&mut filter.part),
        ManagerRequest::History(query) => Some(&mut query.part),
        _ => None,
    }
}
