//! The answers of a Node Manager.

use super::fields::Fields;
use super::{KVSNAME_MAX_BYTES, MAX_LINE_BYTES, VALLEN_MAX_BYTES, WireError};
use std::fmt;

/// One line to a process. [`fmt::Display`] gives the line, without its newline.
///
/// `rc` is 0 for success and negative for a refusal, whose reason is in `msg` (one word).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Answers `init`.
    ResponseToInit {
        /// Version served.
        version: u32,
        /// Minor version served.
        subversion: u32,
        /// 0, or negative when the version asked for is not served.
        rc: i32,
    },
    /// Answers `get_maxes`, in bytes.
    Maxes {
        /// Longest key-value space name.
        kvsname_max: usize,
        /// Longest key.
        keylen_max: usize,
        /// Longest value.
        vallen_max: usize,
    },
    /// Answers `get_appnum`.
    Appnum {
        /// Number of the executable within the job.
        appnum: u32,
    },
    /// Answers `get_my_kvsname`.
    MyKvsname {
        /// Name of the job's key-value space.
        kvsname: String,
    },
    /// Answers `get`. An unknown key has a negative `rc` and the value `unknown`.
    GetResult {
        /// Success or refusal.
        rc: i32,
        /// One word.
        msg: String,
        /// The value.
        value: String,
    },
    /// Answers `put`.
    PutResult {
        /// Success or refusal.
        rc: i32,
        /// One word.
        msg: String,
    },
    /// Answers `barrier_in`, when all ranks are in.
    BarrierOut,
    /// Answers `get_universe_size`.
    UniverseSize {
        /// Processes the allocation could hold.
        size: u32,
    },
    /// Answers `finalize`.
    FinalizeAck,
    /// Answers `mcmd=spawn`.
    SpawnResult {
        /// Success or refusal.
        rc: i32,
        /// One code per process asked for.
        errcodes: Vec<i32>,
    },
    /// Answers `publish_name`, `lookup_name` or `unpublish_name`.
    NameResult {
        /// The answered command.
        kind: NameResultKind,
        /// Success or refusal.
        rc: i32,
        /// One word. It is also sent as `info=`, where old clients look.
        msg: String,
    },
}

/// The name service command that a [`Response::NameResult`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameResultKind {
    /// `publish_result`
    Publish,
    /// `lookup_result`
    Lookup,
    /// `unpublish_result`
    Unpublish,
}

impl NameResultKind {
    fn command(self) -> &'static str {
        match self {
            NameResultKind::Publish => "publish_result",
            NameResultKind::Lookup => "lookup_result",
            NameResultKind::Unpublish => "unpublish_result",
        }
    }
}

/// Longest `msg=` kept: the longest refusal repeats a key.
const MSG_MAX_BYTES: usize = 256;
/// Limit of error codes read from one `spawn_result`.
const MAX_ERRCODES: usize = MAX_LINE_BYTES / 2;

impl Response {
    /// Parses one line, with or without its newline.
    ///
    /// # Errors
    /// A [`WireError`] for every line that is not a response of PMI-1 within the limits.
    pub fn parse(line: &str) -> Result<Response, WireError> {
        let f = Fields::split(line)?;
        Ok(match f.command {
            "response_to_init" => Response::ResponseToInit {
                version: f.number("response_to_init", "pmi_version")?,
                subversion: f.number_or("pmi_subversion", 0)?,
                rc: f.number_or("rc", 0)?,
            },
            "maxes" => Response::Maxes {
                kvsname_max: f.number("maxes", "kvsname_max")?,
                keylen_max: f.number("maxes", "keylen_max")?,
                vallen_max: f.number("maxes", "vallen_max")?,
            },
            "appnum" => Response::Appnum { appnum: f.number("appnum", "appnum")? },
            "my_kvsname" => {
                Response::MyKvsname { kvsname: f.text("my_kvsname", "kvsname", KVSNAME_MAX_BYTES)? }
            }
            "get_result" => Response::GetResult {
                rc: f.number("get_result", "rc")?,
                msg: msg(&f)?,
                value: match f.value() {
                    None => String::new(),
                    Some(_) => f.text("get_result", "value", VALLEN_MAX_BYTES)?,
                },
            },
            "put_result" => {
                Response::PutResult { rc: f.number("put_result", "rc")?, msg: msg(&f)? }
            }
            "barrier_out" => Response::BarrierOut,
            "universe_size" => Response::UniverseSize { size: f.number("universe_size", "size")? },
            "finalize_ack" => Response::FinalizeAck,
            "spawn_result" => Response::SpawnResult {
                rc: f.number("spawn_result", "rc")?,
                errcodes: errcodes(&f)?,
            },
            "publish_result" => name_result(&f, NameResultKind::Publish)?,
            "lookup_result" => name_result(&f, NameResultKind::Lookup)?,
            "unpublish_result" => name_result(&f, NameResultKind::Unpublish)?,
            _ => return Err(f.unknown()),
        })
    }

    /// Parses one line of raw bytes: the entry for network input and for fuzzing.
    ///
    /// # Errors
    /// Like [`Response::parse`]; [`WireError::NotText`] when the bytes are not UTF-8.
    pub fn parse_bytes(line: &[u8]) -> Result<Response, WireError> {
        if line.len() > MAX_LINE_BYTES {
            return Err(WireError::LineTooLong { bytes: line.len() });
        }
        Response::parse(std::str::from_utf8(line).map_err(|_| WireError::NotText)?)
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Response::ResponseToInit { version, subversion, rc } => write!(
                f,
                "cmd=response_to_init pmi_version={version} pmi_subversion={subversion} rc={rc}"
            ),
            Response::Maxes { kvsname_max, keylen_max, vallen_max } => write!(
                f,
                "cmd=maxes kvsname_max={kvsname_max} keylen_max={keylen_max} vallen_max={vallen_max}"
            ),
            Response::Appnum { appnum } => write!(f, "cmd=appnum appnum={appnum}"),
            Response::MyKvsname { kvsname } => write!(f, "cmd=my_kvsname kvsname={kvsname}"),
            Response::GetResult { rc, msg, value } => {
                write!(f, "cmd=get_result rc={rc} msg={msg} value={value}")
            }
            Response::PutResult { rc, msg } => write!(f, "cmd=put_result rc={rc} msg={msg}"),
            Response::BarrierOut => f.write_str("cmd=barrier_out"),
            Response::UniverseSize { size } => write!(f, "cmd=universe_size size={size}"),
            Response::FinalizeAck => f.write_str("cmd=finalize_ack"),
            Response::SpawnResult { rc, errcodes } => {
                write!(f, "cmd=spawn_result rc={rc} errcodes=")?;
                for (i, code) in errcodes.iter().enumerate() {
                    write!(f, "{}{code}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Response::NameResult { kind, rc, msg } => {
                write!(f, "cmd={} info={msg} rc={rc} msg={msg}", kind.command())
            }
        }
    }
}

fn msg(fields: &Fields<'_>) -> Result<String, WireError> {
    match fields.word("msg") {
        None => Ok(String::new()),
        Some(_) => fields.text("result", "msg", MSG_MAX_BYTES),
    }
}

fn errcodes(fields: &Fields<'_>) -> Result<Vec<i32>, WireError> {
    let list = fields.word("errcodes").unwrap_or("");
    list.split(',')
        .filter(|code| !code.is_empty())
        .take(MAX_ERRCODES)
        .map(|code| code.parse().map_err(|_| WireError::BadNumber { field: "errcodes" }))
        .collect()
}

fn name_result(fields: &Fields<'_>, kind: NameResultKind) -> Result<Response, WireError> {
    let rc = fields.number(kind.command(), "rc")?;
    Ok(Response::NameResult { kind, rc, msg: msg(fields)? })
}
