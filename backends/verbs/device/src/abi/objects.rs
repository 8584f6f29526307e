//! Objects of the library, and the functions of an adapter that have no symbol.

use super::{ReceiveRequest, SendRequest, WorkCompletion};
use std::ffi::{c_int, c_void};

/// `struct ibv_device`, opaque here.
#[repr(C)]
pub struct Device {
    _private: [u8; 0],
}

/// `struct ibv_pd`, opaque here.
#[repr(C)]
pub struct ProtectionDomain {
    _private: [u8; 0],
}

/// `struct ibv_ah`, opaque here.
#[repr(C)]
pub struct AddressHandle {
    _private: [u8; 0],
}

/// `ibv_poll_cq`: returns the number of completions written, or a negative number.
pub type PollCq = unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int;
/// `ibv_req_notify_cq`.
pub type ReqNotifyCq = unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int;
/// `ibv_post_send`.
pub type PostSend =
    unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int;
/// `ibv_post_recv`.
pub type PostRecv =
    unsafe extern "C" fn(*mut QueuePair, *mut ReceiveRequest, *mut *mut ReceiveRequest) -> c_int;

/// `struct ibv_context_ops`: calls that reach the adapter without a system call. They have no
/// symbol.
#[repr(C)]
pub struct ContextOps {
    /// From `_compat_query_device` to `_compat_create_cq`.
    pub before_poll_cq: [*const c_void; 11],
    /// `poll_cq`
    pub poll_cq: PollCq,
    /// `req_notify_cq`
    pub req_notify_cq: ReqNotifyCq,
    /// From `_compat_cq_event` to `_compat_destroy_qp`.
    pub before_post_send: [*const c_void; 12],
    /// `post_send`
    pub post_send: PostSend,
    /// `post_recv`
    pub post_recv: PostRecv,
    /// From `_compat_create_ah` to `_compat_async_event`.
    pub after_post_recv: [*const c_void; 5],
}

/// `struct ibv_context`, its beginning.
#[repr(C)]
pub struct Context {
    /// `device`
    pub device: *mut Device,
    /// `ops`
    pub ops: ContextOps,
    /// `cmd_fd`
    pub cmd_fd: c_int,
    /// `async_fd`
    pub async_fd: c_int,
}

/// `struct ibv_mr`.
#[repr(C)]
pub struct MemoryRegion {
    /// `context`
    pub context: *mut Context,
    /// `pd`
    pub pd: *mut ProtectionDomain,
    /// `addr`
    pub addr: *mut c_void,
    /// `length`
    pub length: usize,
    /// `handle`
    pub handle: u32,
    /// `lkey`
    pub lkey: u32,
    /// `rkey`
    pub rkey: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub struct CompletionChannel {
    /// `context`
    pub context: *mut Context,
    /// `fd`
    pub fd: c_int,
    /// `refcnt`
    pub refcnt: c_int,
}

/// `struct ibv_cq`, its beginning.
#[repr(C)]
pub struct CompletionQueue {
    /// `context`
    pub context: *mut Context,
}

/// `struct ibv_qp`, its beginning.
#[repr(C)]
pub struct QueuePair {
    /// `context`
    pub context: *mut Context,
    /// `qp_context`
    pub qp_context: *mut c_void,
    /// `pd`
    pub pd: *mut ProtectionDomain,
    /// `send_cq`
    pub send_cq: *mut CompletionQueue,
    /// `recv_cq`
    pub recv_cq: *mut CompletionQueue,
    /// `srq`
    pub srq: *mut c_void,
    /// `handle`
    pub handle: u32,
    /// `qp_num`
    pub qp_num: u32,
}

/// `union ibv_gid`: an IPv6 address; RoCE maps an IPv4 address into it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gid {
    /// `raw`
    pub raw: [u8; 16],
}
