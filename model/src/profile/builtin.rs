//! The profiles that come along.

use super::{Profile, ProfileError};

/// Their names: the paper's two machines, and three of today's kind.
pub const BUILTIN_NAMES: [&str; 5] =
    ["es40-qsnet", "ideal", "gigabit-ethernet", "infiniband", "ethernet-100g"];

/// The profile of this name.
///
/// # Errors
/// There is none.
pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
    let text = match name {
        "es40-qsnet" => include_str!("../../profiles/es40-qsnet.toml"),
        "ideal" => include_str!("../../profiles/ideal.toml"),
        "gigabit-ethernet" => include_str!("../../profiles/gigabit-ethernet.toml"),
        "infiniband" => include_str!("../../profiles/infiniband.toml"),
        "ethernet-100g" => include_str!("../../profiles/ethernet-100g.toml"),
        _ => return Err(ProfileError::Unknown(name.to_owned())),
    };
    Profile::from_toml(text)
}
