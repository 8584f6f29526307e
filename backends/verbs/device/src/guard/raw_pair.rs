//! The common part of all queue pairs: it makes, changes and destroys a pair, and posts requests.
//! The owner keeps the memory of the requests alive.

use super::completion_queue::CompletionQueue;
use super::protection_domain::ProtectionDomain;
use crate::VerbsError;
use crate::abi::{self, QpAttr, QpCap, QpInitAttr, ReceiveRequest, SendRequest, qp_mask};
use std::ffi::{c_int, c_uint};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// A queue pair of any kind. Its owner calls [`destroy`](Self::destroy) once.
pub(super) struct RawPair {
    pair: NonNull<abi::QueuePair>,
    domain: Arc<ProtectionDomain>,
    queue: Arc<CompletionQueue>,
    max_inline_bytes: usize,
}

impl RawPair {
    /// A pair of this kind (`enum ibv_qp_type`) with this room.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        kind: c_uint,
        cap: QpCap,
    ) -> Result<RawPair, VerbsError> {
        let mut attr = QpInitAttr {
            qp_context: std::ptr::null_mut(),
            send_cq: queue.as_ptr(),
            recv_cq: queue.as_ptr(),
            srq: std::ptr::null_mut(),
            cap,
            qp_type: kind,
            sq_sig_all: 0,
        };
        let device = domain.device();
        assert!(Arc::ptr_eq(device, queue.device()), "one device");
        // SAFETY: domain and queue are alive and of one device, as asserted above. `attr` is valid
        // for the call.
        let pair = unsafe { (device.functions().create_qp)(domain.as_ptr(), &raw mut attr) };
        let Some(pair) = NonNull::new(pair) else { return Err(device.no_queue("ibv_create_qp")) };
        let max_inline_bytes = attr.cap.max_inline_data as usize;
        Ok(RawPair { pair, domain: domain.clone(), queue: queue.clone(), max_inline_bytes })
    }

    pub(super) fn as_ptr(&self) -> *mut abi::QueuePair {
        self.pair.as_ptr()
    }

    pub(super) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Data up to this length may travel inside its request.
    #[inline]
    pub(super) fn max_inline_bytes(&self) -> usize {
        self.max_inline_bytes
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: the pair is alive; its number never changes.
        unsafe { (*self.as_ptr()).qp_num }
    }

    pub(super) fn modify(&self, attr: &mut QpAttr, mask: c_int) -> Result<(), VerbsError> {
        let device = self.domain.device();
        // SAFETY: the pair is alive, `attr` is valid for the call.
        let code = unsafe { (device.functions().modify_qp)(self.as_ptr(), attr, mask) };
        match code {
            0 => Ok(()),
            -1 => Err(device.failed("ibv_modify_qp")),
            code => Err(device.returned("ibv_modify_qp", code)),
        }
    }

    /// Moves the pair to its error state.
    pub(super) fn stop(&self) {
        let mut attr = QpAttr { qp_state: abi::QPS_ERR, ..QpAttr::default() };
        if let Err(error) = self.modify(&mut attr, qp_mask::STATE) {
            // The device is gone, so it sends nothing anyway.
            tracing::debug!(%error, "a queue pair was not stopped");
        }
    }

    /// Posts a request and the requests linked to it.
    ///
    /// # Safety
    /// All requests and their lists of pieces must be valid for the call. The memory of the pieces,
    /// and an address handle, must stay valid until the request is complete or this pair is
    /// destroyed.
    #[inline]
    pub(super) unsafe fn post_send(&self, request: *mut SendRequest) -> Result<(), VerbsError> {
        let mut bad = std::ptr::null_mut();
        let device = self.domain.device();
        // SAFETY: the pair is alive; the caller guarantees the rest.
        let code = unsafe { (device.ops().post_send)(self.as_ptr(), request, &raw mut bad) };
        if code == 0 { Ok(()) } else { Err(device.returned("ibv_post_send", code)) }
    }

    /// Posts a receive request and the requests linked to it.
    ///
    /// # Safety
    /// As for [`post_send`](Self::post_send).
    pub(super) unsafe fn post_receive(
        &self,
        request: *mut ReceiveRequest,
    ) -> Result<(), VerbsError> {
        let mut bad = std::ptr::null_mut();
        let device = self.domain.device();
        // SAFETY: the pair is alive; the caller guarantees the rest.
        let code = unsafe { (device.ops().post_recv)(self.as_ptr(), request, &raw mut bad) };
        if code == 0 { Ok(()) } else { Err(device.returned("ibv_post_recv", code)) }
    }

    /// Destroys the pair. The owner's `drop` calls it. Returns whether the pair is destroyed. If
    /// true, no adapter reads or writes for it any more. If false, its memory and its completion
    /// queue must never be freed.
    pub(super) fn destroy(&self) -> bool {
        // SAFETY: the pair is destroyed once, by the `drop` of its owner. The completion queue is
        // dropped after this.
        let code = unsafe { (self.domain.device().functions().destroy_qp)(self.as_ptr()) };
        if code != 0 {
            let error = io::Error::from_raw_os_error(code.abs());
            tracing::error!(%error, "a queue pair could not be destroyed: its memory and queues \
                                     stay too");
            std::mem::forget(self.queue.clone());
        }
        code == 0
    }
}
