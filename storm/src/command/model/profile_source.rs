//! Machine profiles by name or from a file.

use super::CODE;
use crate::failure::Failure;
use std::path::Path;
use storm_model::{BUILTIN_NAMES, Profile, builtin};

/// The profile that the user named: one that is built in, or a file's.
pub(super) fn profile(named: &str) -> Result<Profile, Failure> {
    let path = Path::new(named);
    if BUILTIN_NAMES.contains(&named) || !(named.contains('/') || path.exists()) {
        return Ok(builtin(named)?);
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        let failure = Failure::of(CODE, &error);
        let causes = vec![failure.message];
        let message = format!("the machine profile {named} cannot be read");
        Failure { message, causes, ..Failure::new(CODE, "") }
            .hint(format!("one of {}, or the path of a file", BUILTIN_NAMES.join(", ")))
    })?;
    Ok(Profile::from_toml(&text)?)
}
