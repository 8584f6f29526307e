//! The values of the header's enumerations that this crate uses.

use std::ffi::c_uint;

/// `IBV_PORT_ACTIVE`
pub const PORT_ACTIVE: c_uint = 4;
/// `IBV_LINK_LAYER_ETHERNET`
pub const LINK_LAYER_ETHERNET: u8 = 2;
/// `IBV_QPT_RC`
pub const QPT_RC: c_uint = 2;
/// `IBV_QPT_UD`
pub const QPT_UD: c_uint = 4;
/// `IBV_QPS_INIT`
pub const QPS_INIT: c_uint = 1;
/// `IBV_QPS_RTR`
pub const QPS_RTR: c_uint = 2;
/// `IBV_QPS_RTS`
pub const QPS_RTS: c_uint = 3;
/// `IBV_QPS_ERR`
pub const QPS_ERR: c_uint = 6;
/// `IBV_ACCESS_LOCAL_WRITE`
pub const ACCESS_LOCAL_WRITE: c_uint = 1;
/// `IBV_ACCESS_REMOTE_WRITE`
pub const ACCESS_REMOTE_WRITE: c_uint = 2;
/// `IBV_WR_RDMA_WRITE`
pub const WR_RDMA_WRITE: c_uint = 0;
/// `IBV_WR_RDMA_WRITE_WITH_IMM`
pub const WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
/// `IBV_WR_SEND`
pub const WR_SEND: c_uint = 2;
/// `IBV_SEND_SIGNALED`
pub const SEND_SIGNALED: c_uint = 2;
/// `IBV_SEND_SOLICITED`
pub const SEND_SOLICITED: c_uint = 4;
/// `IBV_SEND_INLINE`
pub const SEND_INLINE: c_uint = 8;
/// `IBV_WC_RDMA_WRITE`
pub const WC_RDMA_WRITE: c_uint = 1;
/// `IBV_WC_RECV`
pub const WC_RECV: c_uint = 128;
/// `IBV_WC_RECV_RDMA_WITH_IMM`
pub const WC_RECV_RDMA_WITH_IMM: c_uint = 129;
/// `IBV_WC_WR_FLUSH_ERR`
pub const WC_WR_FLUSH_ERR: c_uint = 5;
/// `IBV_WC_RETRY_EXC_ERR`
pub const WC_RETRY_EXC_ERR: c_uint = 12;

/// `IBV_EVENT_COMM_EST`
pub const EVENT_COMM_EST: c_uint = 4;
/// `IBV_EVENT_DEVICE_FATAL`
pub const EVENT_DEVICE_FATAL: c_uint = 8;
/// `IBV_EVENT_PORT_ERR`
pub const EVENT_PORT_ERR: c_uint = 10;

/// `enum ibv_qp_attr_mask`, those used.
pub mod qp_mask {
    use std::ffi::c_int;

    /// `IBV_QP_STATE`
    pub const STATE: c_int = 1;
    /// `IBV_QP_ACCESS_FLAGS`
    pub const ACCESS_FLAGS: c_int = 1 << 3;
    /// `IBV_QP_PKEY_INDEX`
    pub const PKEY_INDEX: c_int = 1 << 4;
    /// `IBV_QP_PORT`
    pub const PORT: c_int = 1 << 5;
    /// `IBV_QP_QKEY`
    pub const QKEY: c_int = 1 << 6;
    /// `IBV_QP_AV`
    pub const AV: c_int = 1 << 7;
    /// `IBV_QP_PATH_MTU`
    pub const PATH_MTU: c_int = 1 << 8;
    /// `IBV_QP_TIMEOUT`
    pub const TIMEOUT: c_int = 1 << 9;
    /// `IBV_QP_RETRY_CNT`
    pub const RETRY_CNT: c_int = 1 << 10;
    /// `IBV_QP_RNR_RETRY`
    pub const RNR_RETRY: c_int = 1 << 11;
    /// `IBV_QP_RQ_PSN`
    pub const RQ_PSN: c_int = 1 << 12;
    /// `IBV_QP_MAX_QP_RD_ATOMIC`
    pub const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    /// `IBV_QP_MIN_RNR_TIMER`
    pub const MIN_RNR_TIMER: c_int = 1 << 15;
    /// `IBV_QP_SQ_PSN`
    pub const SQ_PSN: c_int = 1 << 16;
    /// `IBV_QP_MAX_DEST_RD_ATOMIC`
    pub const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    /// `IBV_QP_DEST_QPN`
    pub const DEST_QPN: c_int = 1 << 20;
}
