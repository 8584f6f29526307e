//! `libpmix.so.2`, found at run time: a machine without it builds and runs STORM.

use crate::abi::{
    ErrorStringFn, GenerateFn, GetVersionFn, RegisterClientFn, RegisterNspaceFn, ServerInitFn,
    SetupForkFn, Status,
};
use libloading::Library;
use std::ffi::CStr;
use thiserror::Error;

/// The name under which every distribution has the library.
const SONAME: &str = "libpmix.so.2";
/// The oldest release with the server interface of [`crate::abi`].
const OLDEST: u32 = 4;

/// Why the library cannot be used.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// The library is not here.
    #[error("{SONAME} cannot be loaded; Debian has it in libpmix2")]
    Absent(#[source] libloading::Error),
    /// The library lacks a function.
    #[error("{SONAME} lacks {symbol}")]
    NoSymbol {
        /// The missing function.
        symbol: &'static str,
        /// The reason.
        source: libloading::Error,
    },
    /// The library is too old.
    #[error("{SONAME} is of release {0:?}; {OLDEST} or later is needed")]
    TooOld(String),
}

/// The used functions.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) error_string: ErrorStringFn,
    pub(crate) server_init: ServerInitFn,
    pub(crate) generate_regex: GenerateFn,
    pub(crate) generate_ppn: GenerateFn,
    pub(crate) register_nspace: RegisterNspaceFn,
    pub(crate) register_client: RegisterClientFn,
    pub(crate) setup_fork: SetupForkFn,
}

impl Functions {
    /// Loads the library, which stays loaded until the process ends.
    pub(crate) fn load() -> Result<Functions, LibraryError> {
        // SAFETY: the library is the system's. Loading it runs the same initialisers as in any
        // program that is linked with it.
        let library = unsafe { Library::new(SONAME) }.map_err(LibraryError::Absent)?;
        let functions = look_up(&library)?;
        // The functions must stay loaded.
        std::mem::forget(library);
        Ok(functions)
    }

    pub(crate) fn name_of(&self, status: Status) -> String {
        // SAFETY: the function takes any number, and returns a string of the library's or NULL.
        let name = unsafe { (self.error_string)(status) };
        if name.is_null() {
            return status.to_string();
        }
        // SAFETY: the pointer is not NULL, so it is a string that ends with NUL and is never freed.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn look_up(library: &Library) -> Result<Functions, LibraryError> {
    macro_rules! symbol {
        ($name:literal) => {{
            // SAFETY: the type of the variable is the prototype in the library's header. Releases
            // with the same soname keep it.
            let symbol = unsafe { library.get(concat!($name, "\0").as_bytes()) };
            *symbol.map_err(|source| LibraryError::NoSymbol { symbol: $name, source })?
        }};
    }
    let get_version: GetVersionFn = symbol!("PMIx_Get_version");
    // SAFETY: the function takes nothing and returns a string of the library's.
    let version = unsafe { CStr::from_ptr(get_version()) }.to_string_lossy().into_owned();
    if major(&version).is_none_or(|major| major < OLDEST) {
        return Err(LibraryError::TooOld(version));
    }
    Ok(Functions {
        error_string: symbol!("PMIx_Error_string"),
        server_init: symbol!("PMIx_server_init"),
        generate_regex: symbol!("PMIx_generate_regex"),
        generate_ppn: symbol!("PMIx_generate_ppn"),
        register_nspace: symbol!("PMIx_server_register_nspace"),
        register_client: symbol!("PMIx_server_register_client"),
        setup_fork: symbol!("PMIx_server_setup_fork"),
    })
}

/// The major version in a text such as `OpenPMIx 4.2.2, repo rev: ...`.
fn major(version: &str) -> Option<u32> {
    let number =
        version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn the_release_is_parsed_from_the_version_text() {
        assert_eq!(major("OpenPMIx 4.2.2, repo rev: gitdb1b1cd (PMIx Standard: 4.2)"), Some(4));
        assert_eq!(major("OpenPMIx 5.0.7 (PMIx Standard: 5.1)"), Some(5));
        assert_eq!(major("a strange one"), None);
    }
}
