//! Attributes of ports and queue pairs.

use super::{CompletionQueue, Gid};
use std::ffi::{c_int, c_uint, c_void};

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PortAttr {
    /// `state`, see [`PORT_ACTIVE`](super::PORT_ACTIVE).
    pub state: c_uint,
    /// `max_mtu`, coded.
    pub max_mtu: c_uint,
    /// `active_mtu`, coded: 1 is 256 bytes, and each next code is twice as much.
    pub active_mtu: c_uint,
    /// `gid_tbl_len`
    pub gid_tbl_len: c_int,
    /// `port_cap_flags`
    pub port_cap_flags: u32,
    /// `max_msg_sz`
    pub max_msg_sz: u32,
    /// `bad_pkey_cntr`
    pub bad_pkey_cntr: u32,
    /// `qkey_viol_cntr`
    pub qkey_viol_cntr: u32,
    /// `pkey_tbl_len`
    pub pkey_tbl_len: u16,
    /// `lid`
    pub lid: u16,
    /// `sm_lid`
    pub sm_lid: u16,
    /// `lmc`
    pub lmc: u8,
    /// `max_vl_num`
    pub max_vl_num: u8,
    /// `sm_sl`
    pub sm_sl: u8,
    /// `subnet_timeout`
    pub subnet_timeout: u8,
    /// `init_type_reply`
    pub init_type_reply: u8,
    /// `active_width`
    pub active_width: u8,
    /// `active_speed`
    pub active_speed: u8,
    /// `phys_state`
    pub phys_state: u8,
    /// `link_layer`, see [`LINK_LAYER_ETHERNET`](super::LINK_LAYER_ETHERNET).
    pub link_layer: u8,
    /// `flags`
    pub flags: u8,
    /// `port_cap_flags2`
    pub port_cap_flags2: u16,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpCap {
    /// `max_send_wr`
    pub max_send_wr: u32,
    /// `max_recv_wr`
    pub max_recv_wr: u32,
    /// `max_send_sge`
    pub max_send_sge: u32,
    /// `max_recv_sge`
    pub max_recv_sge: u32,
    /// `max_inline_data`, in bytes.
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub struct QpInitAttr {
    /// `qp_context`
    pub qp_context: *mut c_void,
    /// `send_cq`
    pub send_cq: *mut CompletionQueue,
    /// `recv_cq`
    pub recv_cq: *mut CompletionQueue,
    /// `srq`
    pub srq: *mut c_void,
    /// `cap`
    pub cap: QpCap,
    /// `qp_type`, see [`QPT_RC`](super::QPT_RC).
    pub qp_type: c_uint,
    /// `sq_sig_all`
    pub sq_sig_all: c_int,
}

/// `struct ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalRoute {
    /// `dgid`
    pub dgid: Gid,
    /// `flow_label`
    pub flow_label: u32,
    /// `sgid_index`
    pub sgid_index: u8,
    /// `hop_limit`
    pub hop_limit: u8,
    /// `traffic_class`
    pub traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AhAttr {
    /// `grh`
    pub grh: GlobalRoute,
    /// `dlid`
    pub dlid: u16,
    /// `sl`
    pub sl: u8,
    /// `src_path_bits`
    pub src_path_bits: u8,
    /// `static_rate`
    pub static_rate: u8,
    /// `is_global`
    pub is_global: u8,
    /// `port_num`
    pub port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttr {
    /// `qp_state`
    pub qp_state: c_uint,
    /// `cur_qp_state`
    pub cur_qp_state: c_uint,
    /// `path_mtu`, coded as [`PortAttr::active_mtu`].
    pub path_mtu: c_uint,
    /// `path_mig_state`
    pub path_mig_state: c_uint,
    /// `qkey`
    pub qkey: u32,
    /// `rq_psn`
    pub rq_psn: u32,
    /// `sq_psn`
    pub sq_psn: u32,
    /// `dest_qp_num`
    pub dest_qp_num: u32,
    /// `qp_access_flags`
    pub qp_access_flags: c_uint,
    /// `cap`
    pub cap: QpCap,
    /// `ah_attr`
    pub ah_attr: AhAttr,
    /// `alt_ah_attr`
    pub alt_ah_attr: AhAttr,
    /// `pkey_index`
    pub pkey_index: u16,
    /// `alt_pkey_index`
    pub alt_pkey_index: u16,
    /// `en_sqd_async_notify`
    pub en_sqd_async_notify: u8,
    /// `sq_draining`
    pub sq_draining: u8,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// `max_dest_rd_atomic`
    pub max_dest_rd_atomic: u8,
    /// `min_rnr_timer`, coded.
    pub min_rnr_timer: u8,
    /// `port_num`
    pub port_num: u8,
    /// `timeout`: 4.096 us times two to this power.
    pub timeout: u8,
    /// `retry_cnt`
    pub retry_cnt: u8,
    /// `rnr_retry`
    pub rnr_retry: u8,
    /// `alt_port_num`
    pub alt_port_num: u8,
    /// `alt_timeout`
    pub alt_timeout: u8,
    /// `rate_limit`
    pub rate_limit: u32,
}
