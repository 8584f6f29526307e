//! The first line of each side.

use serde::{Deserialize, Serialize};

/// Version of the protocol. It rises when an old client or server would
/// misunderstand; fields and requests may be added without that.
pub const API_VERSION: u32 = 1;

/// Who speaks, and what it understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol: [`API_VERSION`].
    pub storm_api: u32,
    /// Version of the program, for people.
    #[serde(default)]
    pub version: String,
}

impl Hello {
    /// What this build says.
    pub fn ours() -> Hello {
        Hello { storm_api: API_VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}
