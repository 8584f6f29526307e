//! The first line of each side.

use serde::{Deserialize, Serialize};

/// Version of the protocol. The number rises when an old client or server would misunderstand the
/// new protocol; added fields and requests leave it alone.
pub const API_VERSION: u32 = 2;

/// A side's first line: its software and its version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol: [`API_VERSION`].
    pub storm_api: u32,
    /// Version of the program, for people.
    #[serde(default)]
    pub version: String,
}

impl Hello {
    /// The hello of this build.
    pub fn ours() -> Hello {
        Hello { storm_api: API_VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}
