//! The expected values and golden logs that tests compare with. They lie outside this repository:
//! in the directory `STORM_SHARED`, or by default in `shared` beside the repository.
//!
//! Without them a test is skipped, with a visible notice. If `STORM_SHARED` is set, as in CI, no
//! test is skipped: a missing file is a failure.
//!
//! This crate does not interpret the files.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable that names the directory of the files.
const VARIABLE: &str = "STORM_SHARED";
/// The default directory.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared");

/// The text of a file, by its path below the directory. `None`, with a visible notice, if it is
/// missing.
///
/// # Panics
/// If `STORM_SHARED` is set and the file cannot be read, or the file is no text.
pub fn read(name: &str) -> Option<String> {
    let bytes = read_bytes(name)?;
    Some(String::from_utf8(bytes).unwrap_or_else(|_| panic!("{name} is no text")))
}

/// The bytes of a file that is no text, under the same rules.
///
/// # Panics
/// As for [`read`].
pub fn read_bytes(name: &str) -> Option<Vec<u8>> {
    let told = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    match look(name, told) {
        Ok(bytes) => Some(bytes),
        Err(notice) => {
            // Written to standard error directly, because the test harness captures `eprintln!`. A
            // failed write is ignored: there is no other place for the notice.
            let _ = std::io::stderr().write_all(notice.as_bytes());
            None
        }
    }
}

/// The content of a file; or the notice that the test is skipped.
fn look(name: &str, told: Option<OsString>) -> Result<Vec<u8>, String> {
    let insists = told.is_some();
    let path = told.map_or_else(|| Path::new(BESIDE).to_owned(), PathBuf::from).join(name);
    std::fs::read(&path).map_err(|error| {
        let path = path.display();
        assert!(
            !insists,
            "{path} cannot be read ({error}), and {VARIABLE} says that it is there: \
             correct it, or unset it to skip the tests that need it"
        );
        format!("SKIPPED: no {path} ({error}): set {VARIABLE}\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_are_skipped_with_a_notice() {
        let notice = look("no/such/file", None).expect_err("it is not there");
        assert!(notice.starts_with("SKIPPED: ") && notice.contains("no/such/file"), "{notice}");
    }

    #[test]
    #[should_panic(expected = "says that it is there")]
    fn absent_values_that_are_required_are_a_failure() {
        let _ = look("no/such/file", Some("/no/such/directory".into()));
    }

    #[test]
    fn present_values_are_read() {
        let here = Some(env!("CARGO_MANIFEST_DIR").into());
        let text =
            look("Cargo.toml", here).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(text.is_ok_and(|text| text.contains("storm-reference")));
    }
}
