//! Listings of jobs. The server requests one part after the other from the core, each when the
//! client has read the part before. A client that does not read costs the manager one part.

use super::connection::Connection;
use crate::api::{
    ApiError, ErrorCode, FromClient, JobView, ManagerRequest, Part, Reply, ReplyStream,
    reply_channel,
};
use std::future::poll_fn;

/// The most jobs in a part, which is kept for every client that has stopped reading. The core puts
/// fewer into it if they have long texts.
const LISTED_TOGETHER: usize = 64;

impl Connection {
    /// Answers a request for a listing.
    pub(super) async fn list(&self, replies: &ReplyStream, id: u64, mut request: ManagerRequest) {
        let sink = replies.sink(id, false);
        begin(&mut request);
        // `false`: the client has disconnected.
        while poll_fn(|context| replies.outgoing.poll_taken(context)).await {
            let part = reply_channel(self.limits.outgoing_bytes);
            let call = self.call(request.clone(), part.sink(id, false));
            if self.calls.send(FromClient::Call(call)).await.is_err() {
                let error = ApiError::new(ErrorCode::ShuttingDown, "the cluster is going down");
                let _ = sink.refuse(error);
                return;
            }
            // If the core has no answer, the core has sent the error itself.
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

/// Makes the request for the first part.
fn begin(request: &mut ManagerRequest) {
    match request {
        ManagerRequest::Jobs(filter) => filter.part = Some(part_behind(None)),
        ManagerRequest::History(query) => query.part = Some(part_behind(None)),
        _ => {}
    }
}

/// Makes the request for the part after `listed`; `false` when there is none.
fn go_on(request: &mut ManagerRequest, listed: &[JobView]) -> bool {
    let Some(last) = listed.last() else { return false };
    match request {
        ManagerRequest::Jobs(filter) => filter.part = Some(part_behind(Some(last.id))),
        ManagerRequest::History(query) => {
            // Without a place, the listing would begin again.
            let Some(place) = last.place else { return false };
            let listed = u32::try_from(listed.len()).unwrap_or(u32::MAX);
            query.limit = query.limit.saturating_sub(listed);
            query.part = Some(part_behind(Some(place)));
        }
        _ => return false,
    }
    true
}

fn part_behind<At>(after: Option<At>) -> Part<At> {
    Part { after, most: LISTED_TOGETHER }
}
