//! Lists of `pmix_info_t`. Their strings and arrays are never freed: a server makes a handful of
//! lists, once.

use crate::abi::{
    BOOL, ByteObject, DATA_ARRAY, Data, DataArray, INFO, Info, KEY_BYTES, NSPACE_BYTES, PROC_RANK,
    Proc, REGEX, STRING, UINT16, UINT32, Value,
};
use std::ffi::{CString, c_char};

/// The value of a key.
pub(crate) enum InfoValue {
    Bool(bool),
    Text(String),
    U16(u16),
    U32(u32),
    Rank(u32),
    /// Made by the library: its bytes with their NUL.
    Regex(Vec<u8>),
    /// Values for one rank or one node.
    Array(Vec<Info>),
}

pub(crate) fn info(key: &str, value: InfoValue) -> Info {
    let (kind, data) = match value {
        InfoValue::Bool(flag) => (BOOL, Data { flag }),
        InfoValue::Text(text) => (STRING, Data { string: lasting(text) }),
        InfoValue::U16(uint16) => (UINT16, Data { uint16 }),
        InfoValue::U32(uint32) => (UINT32, Data { uint32 }),
        InfoValue::Rank(uint32) => (PROC_RANK, Data { uint32 }),
        InfoValue::Regex(bytes) => {
            let bytes: &'static mut [u8] = bytes.leak();
            let bo = ByteObject { size: bytes.len(), bytes: bytes.as_mut_ptr().cast() };
            (REGEX, Data { bo })
        }
        InfoValue::Array(elements) => {
            let elements: &'static mut [Info] = elements.leak();
            let array =
                DataArray { kind: INFO, size: elements.len(), array: elements.as_mut_ptr().cast() };
            (DATA_ARRAY, Data { darray: Box::leak(Box::new(array)) })
        }
    };
    Info { key: name(key), flags: 0, value: Value { kind, data } }
}

/// A rank of a namespace.
pub(crate) fn proc(nspace: &str, rank: u32) -> Proc {
    Proc { nspace: name::<NSPACE_BYTES>(nspace), rank }
}

/// A name of fixed size. A longer text is cut; keys and namespaces of STORM are far shorter.
fn name<const BYTES: usize>(text: &str) -> [c_char; BYTES] {
    let mut name = [0; BYTES];
    for (to, from) in name[..BYTES - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    name
}

fn lasting(text: String) -> *mut c_char {
    // An inner NUL would end the text for every reader anyway.
    let text: Vec<u8> = text.into_bytes().into_iter().take_while(|byte| *byte != 0).collect();
    CString::new(text).unwrap_or_default().into_raw()
}

const _: () = assert!(KEY_BYTES > 64 && NSPACE_BYTES > 64);
