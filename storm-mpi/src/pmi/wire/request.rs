//! The requests of a process to its Node Manager.

use super::fields::Fields;
use super::{MAX_LINE_BYTES, VALLEN_MAX_BYTES, WireError};
use std::fmt;

/// One line from a process. [`fmt::Display`] gives the line, without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `init`: the first line; names the protocol version.
    Init {
        /// Major version; 1 is served.
        version: u32,
        /// Minor version.
        subversion: u32,
    },
    /// `get_maxes`: asks for the size limits.
    GetMaxes,
    /// `get_appnum`: asks for the number of the executable within the job.
    GetAppnum,
    /// `get_my_kvsname`: asks for the name of the job's key-value space.
    GetMyKvsname,
    /// `get`: asks for a value.
    Get {
        /// Key-value space.
        kvsname: String,
        /// Key.
        key: String,
    },
    /// `put`: publishes a value; others see it after the next barrier.
    Put {
        /// Key-value space.
        kvsname: String,
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// `barrier_in`: answered when all ranks of the job are in.
    BarrierIn,
    /// `get_universe_size`: asks how many processes the allocation could hold.
    GetUniverseSize,
    /// `finalize`: the last line of a process that ends well.
    Finalize,
    /// `abort`: ends the whole job; has no answer.
    Abort {
        /// Exit code for the job.
        exit_code: i32,
    },
    /// `mcmd=spawn`: the first line of a spawn command, which lasts until `endcmd`.
    SpawnBegin,
    /// `publish_name`: offers a port under a service name.
    PublishName {
        /// Service name.
        service: String,
    },
    /// `lookup_name`: asks for the port behind a service name.
    LookupName {
        /// Service name.
        service: String,
    },
    /// `unpublish_name`: withdraws a service name.
    UnpublishName {
        /// Service name.
        service: String,
    },
}

impl Request {
    /// Parses one line, with or without its newline.
    ///
    /// # Errors
    /// A [`WireError`] for every line that is not a request of PMI-1 within the limits.
    pub fn parse(line: &str) -> Result<Request, WireError> {
        if line.len() <= MAX_LINE_BYTES && line.trim() == "mcmd=spawn" {
            return Ok(Request::SpawnBegin);
        }
        let f = Fields::split(line)?;
        Ok(match f.command {
            "init" => Request::Init {
                version: f.number("init", "pmi_version")?,
                subversion: f.number_or("pmi_subversion", 0)?,
            },
            "get_maxes" => Request::GetMaxes,
            "get_appnum" => Request::GetAppnum,
            "get_my_kvsname" => Request::GetMyKvsname,
            "get" => Request::Get { kvsname: f.kvsname("get")?, key: f.key("get")? },
            "put" => Request::Put {
                kvsname: f.kvsname("put")?,
                key: f.key("put")?,
                value: f.put_value("put")?,
            },
            "barrier_in" => Request::BarrierIn,
            "get_universe_size" => Request::GetUniverseSize,
            "finalize" => Request::Finalize,
            "abort" => Request::Abort { exit_code: f.number_or("exitcode", 1)? },
            "publish_name" => Request::PublishName { service: service(&f, "publish_name")? },
            "lookup_name" => Request::LookupName { service: service(&f, "lookup_name")? },
            "unpublish_name" => Request::UnpublishName { service: service(&f, "unpublish_name")? },
            _ => return Err(f.unknown()),
        })
    }

    /// Parses one line of raw bytes: the entry for network input and for fuzzing.
    ///
    /// # Errors
    /// Like [`Request::parse`]; [`WireError::NotText`] when the bytes are not UTF-8.
    pub fn parse_bytes(line: &[u8]) -> Result<Request, WireError> {
        if line.len() > MAX_LINE_BYTES {
            return Err(WireError::LineTooLong { bytes: line.len() });
        }
        Request::parse(std::str::from_utf8(line).map_err(|_| WireError::NotText)?)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Init { version, subversion } => {
                write!(f, "cmd=init pmi_version={version} pmi_subversion={subversion}")
            }
            Request::GetMaxes => f.write_str("cmd=get_maxes"),
            Request::GetAppnum => f.write_str("cmd=get_appnum"),
            Request::GetMyKvsname => f.write_str("cmd=get_my_kvsname"),
            Request::Get { kvsname, key } => write!(f, "cmd=get kvsname={kvsname} key={key}"),
            Request::Put { kvsname, key, value } => {
                write!(f, "cmd=put kvsname={kvsname} key={key} value={value}")
            }
            Request::BarrierIn => f.write_str("cmd=barrier_in"),
            Request::GetUniverseSize => f.write_str("cmd=get_universe_size"),
            Request::Finalize => f.write_str("cmd=finalize"),
            Request::Abort { exit_code } => write!(f, "cmd=abort exitcode={exit_code}"),
            Request::SpawnBegin => f.write_str("mcmd=spawn"),
            Request::PublishName { service } => write!(f, "cmd=publish_name service={service}"),
            Request::LookupName { service } => write!(f, "cmd=lookup_name service={service}"),
            Request::UnpublishName { service } => write!(f, "cmd=unpublish_name service={service}"),
        }
    }
}

fn service(fields: &Fields<'_>, command: &'static str) -> Result<String, WireError> {
    fields.text(command, "service", VALLEN_MAX_BYTES)
}
