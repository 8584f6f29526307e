//! A protection domain. Objects can be used together only within one domain.

use super::device::OpenDevice;
use crate::VerbsError;
use crate::abi;
use std::ptr::NonNull;
use std::sync::Arc;

/// A protection domain of a device.
pub struct ProtectionDomain {
    device: Arc<OpenDevice>,
    domain: NonNull<abi::ProtectionDomain>,
}

// SAFETY: the library's calls on it may come from any thread, several at a time.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new domain.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(device: &Arc<OpenDevice>) -> Result<Arc<ProtectionDomain>, VerbsError> {
        // SAFETY: the context is open.
        let domain = unsafe { (device.functions().alloc_pd)(device.context()) };
        match NonNull::new(domain) {
            Some(domain) => Ok(Arc::new(ProtectionDomain { device: device.clone(), domain })),
            None => Err(device.failed("ibv_alloc_pd")),
        }
    }

    /// The domain's device.
    pub fn device(&self) -> &Arc<OpenDevice> {
        &self.device
    }

    pub(super) fn as_ptr(&self) -> *mut abi::ProtectionDomain {
        self.domain.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: memory and queue pairs of the domain hold `self`, so they are destroyed.
        unsafe { (self.device.functions().dealloc_pd)(self.as_ptr()) };
    }
}

impl std::fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProtectionDomain({})", self.device.name())
    }
}
