//! libpmix's server for one job.

use super::upcalls::module;
use crate::abi::{GenerateFn, OPERATION_SUCCEEDED, SUCCESS, ServerModule, Status};
use crate::handover::{Environment, variable};
use crate::info::{InfoValue, info, proc};
use crate::library::{Functions, LibraryError};
use crate::placement::Placement;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;
use thiserror::Error;

/// Why there is no server.
#[derive(Debug, Error)]
pub(super) enum PmixError {
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The library refused a request.
    #[error("libpmix refuses {what}: {status}")]
    Refused {
        /// The request.
        what: &'static str,
        /// The library's name for the reason.
        status: String,
    },
}

/// The server. A process can have only one.
pub(super) struct Pmix {
    functions: Functions,
    nspace: String,
}

impl Pmix {
    /// Starts the server, with its files in `directory`.
    pub(super) fn start(
        nspace: &str,
        placement: &Placement,
        directory: &Path,
    ) -> Result<Pmix, PmixError> {
        let pmix = Pmix { functions: Functions::load()?, nspace: nspace.to_owned() };
        let text = |text: &str| InfoValue::Text(text.to_owned());
        let files = directory.to_string_lossy();
        let mut infos = [
            info("pmix.srv.nspace", InfoValue::Text(format!("{nspace}-server"))),
            info("pmix.srv.rank", InfoValue::Rank(placement.own() as u32)),
            info("pmix.srvr.tmpdir", text(&files)),
            info("pmix.sys.tmpdir", text(&files)),
            info("pmix.hname", InfoValue::Text(placement.own_name())),
        ];
        let module: &'static mut ServerModule = Box::leak(Box::new(module()));
        // SAFETY: the module is never freed, and its functions have the types of the prototypes.
        // The infos are read during the call.
        let status =
            unsafe { (pmix.functions.server_init)(module, infos.as_mut_ptr(), infos.len()) };
        pmix.check("to start a server", status)?;
        pmix.register(placement, directory)?;
        Ok(pmix)
    }

    fn register(&self, placement: &Placement, directory: &Path) -> Result<(), PmixError> {
        let regex = self.generate(self.functions.generate_regex, placement.node_names())?;
        let ppn = self.generate(self.functions.generate_ppn, placement.ranks_of_nodes())?;
        let mut infos = placement.job_info(&self.nspace, directory);
        infos.extend([
            info("pmix.nmap", InfoValue::Regex(regex)),
            info("pmix.pmap", InfoValue::Regex(ppn)),
        ]);
        let nspace = proc(&self.nspace, 0).nspace;
        let local = placement.local().len() as i32;
        // SAFETY: the namespace has the length that the library requires. The infos and the data
        // that they point to match their types. Without a callback the call returns only when it is
        // done.
        let status = unsafe {
            (self.functions.register_nspace)(
                nspace.as_ptr(),
                local,
                infos.as_mut_ptr(),
                infos.len(),
                None,
                ptr::null_mut(),
            )
        };
        self.check("the job", status)?;
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        for rank in placement.local() {
            let proc = proc(&self.nspace, *rank);
            // SAFETY: as above.
            let status = unsafe {
                (self.functions.register_client)(
                    &proc,
                    uid,
                    gid,
                    ptr::null_mut(),
                    None,
                    ptr::null_mut(),
                )
            };
            self.check("a rank", status)?;
        }
        Ok(())
    }

    /// The variables that a rank needs in its environment.
    pub(super) fn environment(&self, rank: u32) -> Result<Environment, PmixError> {
        let mut list: *mut *mut c_char = ptr::null_mut();
        let proc = proc(&self.nspace, rank);
        // SAFETY: NULL is an empty list, which the library replaces by a list that it allocates.
        let status = unsafe { (self.functions.setup_fork)(&proc, &mut list) };
        self.check("an environment", status)?;
        let mut environment = Vec::new();
        let mut at = list;
        // SAFETY: the list has strings and ends with NULL. It is not freed before the process ends.
        while !at.is_null() && !unsafe { *at }.is_null() {
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(*at) };
            environment.extend(variable(text.to_bytes()));
            // SAFETY: the NULL has not been reached.
            at = unsafe { at.add(1) };
        }
        Ok(environment)
    }

    /// A list in the library's shorter form. It may contain NULs, including one at its end.
    fn generate(&self, function: GenerateFn, list: String) -> Result<Vec<u8>, PmixError> {
        let list = CString::new(list).unwrap_or_default();
        let mut made: *mut c_char = ptr::null_mut();
        // SAFETY: the arguments are a string and a place for the pointer to another.
        let status = unsafe { function(list.as_ptr(), &mut made) };
        self.check("the placement", status)?;
        // SAFETY: the library made it, and it is not freed before the process ends.
        Ok(unsafe { regex_bytes(made) })
    }

    fn check(&self, what: &'static str, status: Status) -> Result<(), PmixError> {
        match status {
            SUCCESS | OPERATION_SUCCEEDED => Ok(()),
            status => Err(PmixError::Refused { what, status: self.functions.name_of(status) }),
        }
    }
}

/// The bytes of a regular expression of PMIx: either a string, or `blob`, NUL, `component=NAME`,
/// NUL, `size=N`, NUL and N bytes.
///
/// # Safety
/// `regex` must be such an expression, or NULL.
unsafe fn regex_bytes(regex: *const c_char) -> Vec<u8> {
    if regex.is_null() {
        return vec![0];
    }
    // SAFETY: it begins with a string.
    let first = unsafe { CStr::from_ptr(regex) };
    let mut bytes = first.to_bytes_with_nul().to_vec();
    if first.to_bytes() != b"blob" {
        return bytes;
    }
    for _ in 0..2 {
        // SAFETY: two more strings follow.
        let next = unsafe { CStr::from_ptr(regex.add(bytes.len())) };
        bytes.extend_from_slice(next.to_bytes_with_nul());
        let size = next.to_str().ok().and_then(|text| text.strip_prefix("size="));
        if let Some(size) = size.and_then(|size| size.parse::<usize>().ok()) {
            // SAFETY: that many bytes follow.
            let rest =
                unsafe { std::slice::from_raw_parts(regex.add(bytes.len()).cast::<u8>(), size) };
            bytes.extend_from_slice(rest);
            break;
        }
    }
    bytes
}
