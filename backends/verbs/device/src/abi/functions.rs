//! The library's functions with a symbol.

use super::{
    AddressHandle, AhAttr, AsyncEvent, CompletionChannel, CompletionQueue, Context, Device, Gid,
    MemoryRegion, PortAttr, ProtectionDomain, QpAttr, QpInitAttr, QueuePair,
};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The symbols of the library, looked up by name.
pub struct Functions {
    /// `ibv_fork_init`
    pub fork_init: unsafe extern "C" fn() -> c_int,
    /// `ibv_get_device_list`
    pub get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Device,
    /// `ibv_free_device_list`
    pub free_device_list: unsafe extern "C" fn(*mut *mut Device),
    /// `ibv_get_device_name`
    pub get_device_name: unsafe extern "C" fn(*mut Device) -> *const c_char,
    /// `ibv_open_device`
    pub open_device: unsafe extern "C" fn(*mut Device) -> *mut Context,
    /// `ibv_close_device`
    pub close_device: unsafe extern "C" fn(*mut Context) -> c_int,
    /// `ibv_query_port`. Fills all fields but the last, `port_cap_flags2`.
    pub query_port: unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int,
    /// `ibv_query_gid`
    pub query_gid: unsafe extern "C" fn(*mut Context, u8, c_int, *mut Gid) -> c_int,
    /// `ibv_get_async_event`
    pub get_async_event: unsafe extern "C" fn(*mut Context, *mut AsyncEvent) -> c_int,
    /// `ibv_ack_async_event`
    pub ack_async_event: unsafe extern "C" fn(*mut AsyncEvent),
    /// `ibv_event_type_str`
    pub event_type_str: unsafe extern "C" fn(c_uint) -> *const c_char,
    /// `ibv_alloc_pd`
    pub alloc_pd: unsafe extern "C" fn(*mut Context) -> *mut ProtectionDomain,
    /// `ibv_dealloc_pd`
    pub dealloc_pd: unsafe extern "C" fn(*mut ProtectionDomain) -> c_int,
    /// `ibv_reg_mr`
    pub reg_mr:
        unsafe extern "C" fn(*mut ProtectionDomain, *mut c_void, usize, c_int) -> *mut MemoryRegion,
    /// `ibv_dereg_mr`
    pub dereg_mr: unsafe extern "C" fn(*mut MemoryRegion) -> c_int,
    /// `ibv_create_comp_channel`
    pub create_comp_channel: unsafe extern "C" fn(*mut Context) -> *mut CompletionChannel,
    /// `ibv_destroy_comp_channel`
    pub destroy_comp_channel: unsafe extern "C" fn(*mut CompletionChannel) -> c_int,
    /// `ibv_create_cq`
    pub create_cq: unsafe extern "C" fn(
        *mut Context,
        c_int,
        *mut c_void,
        *mut CompletionChannel,
        c_int,
    ) -> *mut CompletionQueue,
    /// `ibv_destroy_cq`
    pub destroy_cq: unsafe extern "C" fn(*mut CompletionQueue) -> c_int,
    /// `ibv_get_cq_event`
    pub get_cq_event: unsafe extern "C" fn(
        *mut CompletionChannel,
        *mut *mut CompletionQueue,
        *mut *mut c_void,
    ) -> c_int,
    /// `ibv_ack_cq_events`
    pub ack_cq_events: unsafe extern "C" fn(*mut CompletionQueue, c_uint),
    /// `ibv_create_qp`
    pub create_qp: unsafe extern "C" fn(*mut ProtectionDomain, *mut QpInitAttr) -> *mut QueuePair,
    /// `ibv_modify_qp`
    pub modify_qp: unsafe extern "C" fn(*mut QueuePair, *mut QpAttr, c_int) -> c_int,
    /// `ibv_destroy_qp`
    pub destroy_qp: unsafe extern "C" fn(*mut QueuePair) -> c_int,
    /// `ibv_create_ah`
    pub create_ah: unsafe extern "C" fn(*mut ProtectionDomain, *mut AhAttr) -> *mut AddressHandle,
    /// `ibv_destroy_ah`
    pub destroy_ah: unsafe extern "C" fn(*mut AddressHandle) -> c_int,
    /// `ibv_attach_mcast`
    pub attach_mcast: unsafe extern "C" fn(*mut QueuePair, *const Gid, u16) -> c_int,
    /// `ibv_detach_mcast`
    pub detach_mcast: unsafe extern "C" fn(*mut QueuePair, *const Gid, u16) -> c_int,
    /// `ibv_wc_status_str`
    pub wc_status_str: unsafe extern "C" fn(c_uint) -> *const c_char,
}
