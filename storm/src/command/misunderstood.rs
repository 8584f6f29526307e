//! The failure for a reply that does not answer the request.

use crate::failure::Failure;
use storm_mm::api::Reply;

pub(crate) fn misunderstood(reply: &Reply) -> Failure {
    let code = "protocol";
    Failure::new(code, format!("the manager sent an unexpected reply: {reply:?}"))
}
