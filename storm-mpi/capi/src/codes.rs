//! Error classes and codes that programs add (MPI-4.1, section 9.5). A code of the library is its
//! class.

use crate::abi::constants::SUCCESS;
use crate::class::Class;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Class and text of each added code. The codes follow the library's last one. All threads share
/// them, because classes and texts may be asked for at any time.
static ADDED: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

/// The value of `MPI_LASTUSEDCODE`, whose address programs get.
static LAST_USED: AtomicI32 = AtomicI32::new(Class::LAST_CODE);

/// The code was not added, or the class does not exist.
pub(crate) struct NoSuchCode;

fn added() -> MutexGuard<'static, Vec<(c_int, String)>> {
    // No code panics while it holds the lock, so the contents are consistent.
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(code: c_int) -> Option<usize> {
    usize::try_from(code.checked_sub(Class::LAST_CODE + 1)?).ok()
}

/// A new class, which is a code of its own.
pub(crate) fn add_class() -> c_int {
    add(|code| code)
}

pub(crate) fn add_code(class: c_int) -> Result<c_int, NoSuchCode> {
    let known = class == 0 || Class::of(class).is_some() || class_of(class) == Some(class);
    if known { Ok(add(|_| class)) } else { Err(NoSuchCode) }
}

fn add(class: impl FnOnce(c_int) -> c_int) -> c_int {
    let mut added = added();
    let code = Class::LAST_CODE + 1 + added.len() as c_int;
    added.push((class(code), String::new()));
    LAST_USED.store(code, Ordering::Relaxed);
    code
}

/// Gives an added code its text.
pub(crate) fn set_text(code: c_int, text: String) -> Result<(), NoSuchCode> {
    let mut added = added();
    let own = place(code).and_then(|place| added.get_mut(place));
    own.ok_or(NoSuchCode)?.1 = text;
    Ok(())
}

/// The class of an added code.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    added().get(place(code)?).map(|&(class, _)| class)
}

/// The text of an added code.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    added().get(place(code)?).map(|(_, text)| text.clone())
}

/// Address of the code that was added last.
pub(crate) fn last_used() -> *const c_int {
    LAST_USED.as_ptr()
}

/// Name and meaning of an error code; `None` if there is no such code.
pub(crate) fn describe(code: c_int) -> Option<String> {
    if code == SUCCESS {
        return Some("MPI_SUCCESS: no error".to_owned());
    }
    text_of(code).or_else(|| Class::description(code))
}
