//! Work requests and completions.

use std::ffi::{c_int, c_uint};

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sge {
    /// `addr`
    pub addr: u64,
    /// `length`
    pub length: u32,
    /// `lkey`
    pub lkey: u32,
}

/// `struct ibv_send_wr` with the members `rdma` and `ud` of its union `wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// `wr_id`
    pub wr_id: u64,
    /// `next`
    pub next: *mut SendRequest,
    /// `sg_list`
    pub sg_list: *mut Sge,
    /// `num_sge`
    pub num_sge: c_int,
    /// `opcode`
    pub opcode: c_uint,
    /// `send_flags`
    pub send_flags: c_uint,
    /// `imm_data`, big-endian.
    pub imm_data: u32,
    /// `wr.rdma.remote_addr`, or the pointer `wr.ud.ah`
    pub remote_addr: u64,
    /// `wr.rdma.rkey`, or `wr.ud.remote_qpn`
    pub rkey: u32,
    /// `wr.ud.remote_qkey`
    pub remote_qkey: u32,
    /// The rest of `wr`, and the two unions behind it.
    pub unused: [u64; 9],
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub struct ReceiveRequest {
    /// `wr_id`
    pub wr_id: u64,
    /// `next`
    pub next: *mut ReceiveRequest,
    /// `sg_list`
    pub sg_list: *mut Sge,
    /// `num_sge`
    pub num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkCompletion {
    /// `wr_id`
    pub wr_id: u64,
    /// `status`: 0 is success.
    pub status: c_uint,
    /// `opcode`; meaningless for a failed request.
    pub opcode: c_uint,
    /// `vendor_err`
    pub vendor_err: u32,
    /// `byte_len`
    pub byte_len: u32,
    /// `imm_data`, big-endian.
    pub imm_data: u32,
    /// `qp_num`
    pub qp_num: u32,
    /// `src_qp`
    pub src_qp: u32,
    /// `wc_flags`
    pub wc_flags: c_uint,
    /// `pkey_index`
    pub pkey_index: u16,
    /// `slid`
    pub slid: u16,
    /// `sl`
    pub sl: u8,
    /// `dlid_path_bits`
    pub dlid_path_bits: u8,
}

/// `struct ibv_async_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AsyncEvent {
    /// `element`, a union of pointers and a port number.
    pub element: u64,
    /// `event_type`
    pub event_type: c_uint,
}
