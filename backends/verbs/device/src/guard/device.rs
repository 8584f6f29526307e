//! Devices: listing them, opening one, querying its ports.

use crate::VerbsError;
use crate::abi::{self, Functions, Gid, LINK_LAYER_ETHERNET, PORT_ACTIVE, PortAttr};
use crate::library::functions;
use nix::sys::resource::{Resource, getrlimit};
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// The name of a present device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name, such as `mlx5_0`.
    pub name: String,
}

/// The library's list of devices, freed when dropped.
struct List {
    functions: &'static Functions,
    devices: NonNull<*mut abi::Device>,
    len: usize,
}

/// A device in use.
pub struct OpenDevice {
    functions: &'static Functions,
    context: NonNull<abi::Context>,
    name: String,
}

// SAFETY: the library's calls on a context may come from any thread and from several at a time
// (ibv_open_device(3) and the others are thread-safe). Only forking is special, and registered
// memory is kept from children.
unsafe impl Send for OpenDevice {}
// SAFETY: as above.
unsafe impl Sync for OpenDevice {}

/// An event of a device, of one of its ports or of an object that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// `enum ibv_event_type`.
    pub kind: u32,
    /// The library's name for the event.
    pub name: String,
}

/// One port of a device, with its current state.
#[derive(Clone, Debug)]
pub struct Port {
    /// From 1.
    pub number: u8,
    /// The port's attributes, from the library.
    pub attr: PortAttr,
}

impl Device {
    /// All devices of this host.
    ///
    /// # Errors
    /// [`VerbsError::NoLibrary`], [`VerbsError::NoSymbol`]; [`VerbsError::Call`] if the kernel has
    /// no verbs at all.
    pub fn list() -> Result<Vec<Device>, VerbsError> {
        let list = List::get(functions()?)?;
        Ok((0..list.len).map(|at| Device { name: list.name(at) }).collect())
    }

    /// Opens the device `wanted`, or the first.
    ///
    /// # Errors
    /// [`VerbsError::NoDevice`], [`VerbsError::NoSuchDevice`], and the errors of
    /// [`list`](Self::list).
    pub fn open(wanted: Option<&str>) -> Result<Arc<OpenDevice>, VerbsError> {
        let functions = functions()?;
        let list = List::get(functions)?;
        let names: Vec<String> = (0..list.len).map(|at| list.name(at)).collect();
        let at = match wanted {
            None if names.is_empty() => return Err(VerbsError::NoDevice),
            None => 0,
            Some(wanted) => match names.iter().position(|name| name == wanted) {
                Some(at) => at,
                None => {
                    let wanted = wanted.to_owned();
                    return Err(VerbsError::NoSuchDevice { wanted, present: names });
                }
            },
        };
        let name = names[at].clone();
        // SAFETY: `at` is below the length of the list, which lives to the end of this function. An
        // opened context outlives the list (ibv_free_device_list(3)).
        let context = unsafe { (functions.open_device)(*list.devices.as_ptr().add(at)) };
        match NonNull::new(context) {
            Some(context) => Ok(Arc::new(OpenDevice { functions, context, name })),
            None => Err(failed("ibv_open_device", &name)),
        }
    }
}

impl List {
    fn get(functions: &'static Functions) -> Result<List, VerbsError> {
        let mut len: c_int = 0;
        // SAFETY: `len` is valid for the call.
        let devices = unsafe { (functions.get_device_list)(&raw mut len) };
        match NonNull::new(devices) {
            Some(devices) => {
                Ok(List { functions, devices, len: usize::try_from(len).unwrap_or(0) })
            }
            // A missing kernel module counts as no device.
            None if io::Error::last_os_error().raw_os_error() == Some(nix::libc::ENOSYS) => {
                Err(VerbsError::NoDevice)
            }
            None => Err(failed("ibv_get_device_list", "this host")),
        }
    }

    fn name(&self, at: usize) -> String {
        assert!(at < self.len, "a device of the list");
        // SAFETY: `at` is below the length of the list. The name is a C string in the device, which
        // lives as long as the list.
        let name = unsafe {
            let device = *self.devices.as_ptr().add(at);
            CStr::from_ptr((self.functions.get_device_name)(device))
        };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from `ibv_get_device_list` and is freed once.
        unsafe { (self.functions.free_device_list)(self.devices.as_ptr()) };
    }
}

impl OpenDevice {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.functions
    }

    pub(super) fn context(&self) -> *mut abi::Context {
        self.context.as_ptr()
    }

    /// The calls for which the library has no symbols.
    pub(super) fn ops(&self) -> &abi::ContextOps {
        // SAFETY: the context stays open as long as `self` exists. Its functions are set before
        // `ibv_open_device` returns and never changed.
        unsafe { &(*self.context.as_ptr()).ops }
    }

    /// The error of the call that just failed, from `errno`.
    pub(super) fn failed(&self, call: &'static str) -> VerbsError {
        failed(call, &self.name)
    }

    /// The error of the call that could not make a queue. Too little lockable memory may be the
    /// reason.
    pub(super) fn no_queue(&self, call: &'static str) -> VerbsError {
        let error = self.failed(call);
        let VerbsError::Call { source, .. } = &error else { return error };
        match limit_that_stops(source) {
            Some(limit) => VerbsError::QueueMemory { call, device: self.name.clone(), limit },
            None => error,
        }
    }

    /// The error of a call that returned `code` instead of setting `errno`.
    pub(super) fn returned(&self, call: &'static str, code: c_int) -> VerbsError {
        let source = io::Error::from_raw_os_error(code.abs());
        VerbsError::Call { call, device: self.name.clone(), source }
    }

    /// The error of a call.
    pub fn io(&self, call: &'static str, source: io::Error) -> VerbsError {
        VerbsError::Call { call, device: self.name.clone(), source }
    }

    /// Makes the device's descriptor non-blocking, so that taking an event never waits.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn unblock(&self) -> Result<(), VerbsError> {
        set_nonblocking(self.as_fd()).map_err(|errno| self.io("waiting for events", errno.into()))
    }

    /// A port with its current state.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if there is no port of this number.
    pub fn port(&self, number: u8) -> Result<Port, VerbsError> {
        let mut attr = PortAttr::default();
        // SAFETY: the context is open; the library writes less than `attr` has.
        let code = unsafe { (self.functions.query_port)(self.context(), number, &raw mut attr) };
        match code {
            0 => Ok(Port { number, attr }),
            code => Err(self.returned("ibv_query_port", code)),
        }
    }

    /// A port, which must be active.
    ///
    /// # Errors
    /// [`VerbsError::PortNotActive`].
    pub fn active_port(&self, number: u8) -> Result<Port, VerbsError> {
        let port = self.port(number)?;
        if port.is_active() {
            return Ok(port);
        }
        let (device, state) = (self.name.clone(), port.state());
        Err(VerbsError::PortNotActive { device, port: number, state })
    }

    /// The address at `index` of a port's table; all zero if there is none.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn gid(&self, port: u8, index: u8) -> Result<Gid, VerbsError> {
        let mut gid = Gid::default();
        // SAFETY: the context is open, `gid` is valid for the call.
        let code = unsafe {
            (self.functions.query_gid)(self.context(), port, c_int::from(index), &raw mut gid)
        };
        if code == 0 { Ok(gid) } else { Err(self.failed("ibv_query_gid")) }
    }

    /// Takes the next event of the device, a port or a queue pair. `None` if there is none. The
    /// descriptor must be non-blocking.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn take_event(&self) -> io::Result<Option<DeviceEvent>> {
        let mut event = abi::AsyncEvent { element: 0, event_type: 0 };
        // SAFETY: the context is open, `event` is valid for the call.
        let code = unsafe { (self.functions.get_async_event)(self.context(), &raw mut event) };
        if code != 0 {
            let error = io::Error::last_os_error();
            let nothing = error.kind() == io::ErrorKind::WouldBlock;
            return if nothing { Ok(None) } else { Err(error) };
        }
        // SAFETY: the library has a constant string for every number.
        let name = unsafe { CStr::from_ptr((self.functions.event_type_str)(event.event_type)) };
        let name = name.to_string_lossy().into_owned();
        // SAFETY: the event was just taken and is acknowledged once. Its object cannot be destroyed
        // before the acknowledgement.
        unsafe { (self.functions.ack_async_event)(&raw mut event) };
        Ok(Some(DeviceEvent { kind: event.event_type, name }))
    }
}

impl AsFd for OpenDevice {
    /// The descriptor that becomes readable with an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is closed with `self`, and its descriptor stays open and unchanged
        // until then.
        unsafe { BorrowedFd::borrow_raw((*self.context.as_ptr()).async_fd) }
    }
}

impl AsRawFd for OpenDevice {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        // SAFETY: everything made from the context holds `self`, so it is destroyed.
        unsafe { (self.functions.close_device)(self.context()) };
    }
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenDevice({})", self.name)
    }
}

impl Port {
    /// The state in words.
    pub fn state(&self) -> &'static str {
        match self.attr.state {
            1 => "down",
            2 => "initialising",
            3 => "armed",
            PORT_ACTIVE => "active",
            5 => "active, but deferring",
            _ => "in no known state",
        }
    }

    /// Whether the port carries data.
    pub fn is_active(&self) -> bool {
        self.attr.state == PORT_ACTIVE
    }

    /// Whether the port is RoCE.
    pub fn is_ethernet(&self) -> bool {
        self.attr.link_layer == LINK_LAYER_ETHERNET
    }

    /// The name of the port's link layer.
    pub fn link_layer(&self) -> &'static str {
        link_layer_name(self.attr.link_layer)
    }

    /// The current largest packet, in bytes.
    pub fn mtu_bytes(&self) -> u32 {
        mtu_bytes(self.attr.active_mtu)
    }
}

/// A coded MTU in bytes; 0 if the code is invalid.
pub fn mtu_bytes(code: u32) -> u32 {
    if (1..=5).contains(&code) { 128 << code } else { 0 }
}

/// A link layer in words.
pub fn link_layer_name(layer: u8) -> &'static str {
    match layer {
        0 | 1 => "InfiniBand",
        LINK_LAYER_ETHERNET => "Ethernet",
        _ => "an unknown network",
    }
}

fn failed(call: &'static str, device: &str) -> VerbsError {
    let source = io::Error::last_os_error();
    VerbsError::Call { call, device: device.to_owned(), source }
}

/// The limit of this process on locked memory in bytes, if it may be the cause of `error`.
pub(super) fn limit_that_stops(error: &io::Error) -> Option<u64> {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(u64::MAX, |(soft, _)| soft);
    let is_memory = matches!(error.raw_os_error(), Some(nix::libc::ENOMEM | nix::libc::EAGAIN));
    (is_memory && limit != u64::MAX).then_some(limit)
}

/// Makes reads of events non-blocking.
pub(super) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> Result<(), nix::errno::Errno> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_truncate(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}
