//! A string of the operating system: any bytes but NUL, usually UTF-8.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An argument, a variable or a path exactly as the user gave it. In JSON it is
/// a string where it is UTF-8 and an array of bytes where it is not.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsBytes(Vec<u8>);

impl OsBytes {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same bytes as the standard library's type.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Readable text: bytes that are not UTF-8 are replaced.
    pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<OsString> for OsBytes {
    fn from(text: OsString) -> OsBytes {
        OsBytes(text.into_vec())
    }
}

impl From<&str> for OsBytes {
    fn from(text: &str) -> OsBytes {
        OsBytes(text.as_bytes().to_vec())
    }
}

impl From<String> for OsBytes {
    fn from(text: String) -> OsBytes {
        OsBytes(text.into_bytes())
    }
}

impl From<Vec<u8>> for OsBytes {
    fn from(bytes: Vec<u8>) -> OsBytes {
        OsBytes(bytes)
    }
}

impl fmt::Debug for OsBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_os_str(), f)
    }
}

impl Serialize for OsBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (serializer.is_human_readable(), std::str::from_utf8(&self.0)) {
            (true, Ok(text)) => serializer.serialize_str(text),
            (true, Err(_)) | (false, _) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OsBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OsBytes, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Readable {
            Text(String),
            Bytes(Vec<u8>),
        }
        if !deserializer.is_human_readable() {
            return Vec::deserialize(deserializer).map(OsBytes);
        }
        Ok(match Readable::deserialize(deserializer)? {
            Readable::Text(text) => OsBytes(text.into_bytes()),
            Readable::Bytes(bytes) => OsBytes(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_json_and_postcard_whatever_the_bytes() {
        for bytes in [b"plain".to_vec(), vec![0xff, 0xfe, b'a'], vec![]] {
            let value = OsBytes(bytes);
            let json = serde_json::to_string(&value).expect("encodes");
            assert_eq!(serde_json::from_str::<OsBytes>(&json).expect("decodes"), value);
            let packed = postcard::to_stdvec(&value).expect("encodes");
            assert_eq!(postcard::from_bytes::<OsBytes>(&packed).expect("decodes"), value);
        }
    }
}
