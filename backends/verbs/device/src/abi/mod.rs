//! The part of the ABI of `libibverbs.so.1` that this crate uses, written by hand.
//!
//! Names, order and values are those of `infiniband/verbs.h` of rdma-core 44. The test `layout` of
//! `storm-backend-verbs` compares every size, alignment, offset and value with the header, as the C
//! compiler sees them. Add every new item of this module to that test. The test needs the header
//! (Debian: libibverbs-dev). Without the header it reports that it was skipped, or fails if
//! `STORM_TEST_VERBS` is set. The library's objects are described only up to the last field that is
//! used, because this crate never makes or copies such an object.

mod attributes;
mod constants;
mod functions;
mod objects;
mod requests;

pub use attributes::{AhAttr, GlobalRoute, PortAttr, QpAttr, QpCap, QpInitAttr};
pub use constants::{
    ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE, EVENT_COMM_EST, EVENT_DEVICE_FATAL, EVENT_PORT_ERR,
    LINK_LAYER_ETHERNET, PORT_ACTIVE, QPS_ERR, QPS_INIT, QPS_RTR, QPS_RTS, QPT_RC, QPT_UD,
    SEND_INLINE, SEND_SIGNALED, SEND_SOLICITED, WC_RDMA_WRITE, WC_RECV, WC_RECV_RDMA_WITH_IMM,
    WC_RETRY_EXC_ERR, WC_WR_FLUSH_ERR, WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM, WR_SEND, qp_mask,
};
pub use functions::Functions;
pub use objects::{
    AddressHandle, CompletionChannel, CompletionQueue, Context, ContextOps, Device, Gid,
    MemoryRegion, PollCq, PostRecv, PostSend, ProtectionDomain, QueuePair, ReqNotifyCq,
};
pub use requests::{AsyncEvent, ReceiveRequest, SendRequest, Sge, WorkCompletion};
