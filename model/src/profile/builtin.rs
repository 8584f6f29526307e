//! The built-in profiles.

use super::{Profile, ProfileError};

/// The names: the paper's two machines, three kinds of present machines, and the emulated machine
/// on which the verbs backend is tested.
pub const BUILTIN_NAMES: [&str; 6] =
    ["es40-qsnet", "ideal", "gigabit-ethernet", "infiniband", "ethernet-100g", "soft-roce"];

/// The profile of this name.
///
/// # Errors
/// There is no profile of this name.
pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
    Profile::from_toml(builtin_text(name)?)
}

/// The profile's text, without the part for simulators.
///
/// # Errors
/// There is no profile of this name.
pub fn builtin_text(name: &str) -> Result<&'static str, ProfileError> {
    match name {
        "es40-qsnet" => Ok(include_str!("../../profiles/es40-qsnet.toml")),
        "ideal" => Ok(include_str!("../../profiles/ideal.toml")),
        "gigabit-ethernet" => Ok(include_str!("../../profiles/gigabit-ethernet.toml")),
        "infiniband" => Ok(include_str!("../../profiles/infiniband.toml")),
        "ethernet-100g" => Ok(include_str!("../../profiles/ethernet-100g.toml")),
        "soft-roce" => Ok(include_str!("../../profiles/soft-roce.toml")),
        _ => Err(ProfileError::Unknown(name.to_owned())),
    }
}
