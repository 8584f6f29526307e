//! Destinations of datagrams.

use super::device::Port;
use super::protection_domain::ProtectionDomain;
use crate::VerbsError;
use crate::abi::{self, AhAttr, Gid};
use std::ptr::NonNull;
use std::sync::Arc;

/// Hop limit of datagrams to a group: they stay in their network.
const HOP_LIMIT: u8 = 1;

/// The address of a multicast group, as seen from a port.
pub struct AddressHandle {
    handle: NonNull<abi::AddressHandle>,
    domain: Arc<ProtectionDomain>,
}

impl AddressHandle {
    /// The handle of the group `gid`, for datagrams sent from the address at `gid_index`.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn of_group(
        domain: &Arc<ProtectionDomain>,
        port: &Port,
        gid_index: u8,
        gid: Gid,
    ) -> Result<AddressHandle, VerbsError> {
        let mut attr = AhAttr { is_global: 1, port_num: port.number, ..AhAttr::default() };
        attr.grh.dgid = gid;
        attr.grh.sgid_index = gid_index;
        attr.grh.hop_limit = HOP_LIMIT;
        let device = domain.device();
        // SAFETY: the domain is alive, `attr` is valid for the call.
        let handle = unsafe { (device.functions().create_ah)(domain.as_ptr(), &raw mut attr) };
        match NonNull::new(handle) {
            Some(handle) => Ok(AddressHandle { handle, domain: domain.clone() }),
            None => Err(device.failed("ibv_create_ah")),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut abi::AddressHandle {
        self.handle.as_ptr()
    }

    pub(super) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is destroyed once. Requests that use it belong to a pair that held it,
        // and the pair is destroyed.
        unsafe { (self.domain.device().functions().destroy_ah)(self.as_ptr()) };
    }
}

impl std::fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AddressHandle({})", self.domain.device().name())
    }
}
