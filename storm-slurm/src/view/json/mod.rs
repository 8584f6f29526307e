//! The output of `--json`: the shape of Slurm's `data_parser` since 23.11, which clients generated
//! from its OpenAPI specification read.
//!
//! Facts that do not exist here have Slurm's value of a job or node without them.

mod account;
mod job;
mod node;

pub use account::{Accounted, accounted};
pub use job::queued;
pub use node::grouped;

use super::{ExitCode, Show};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The form of the data, by Slurm's name.
const DATA_PARSER: &str = "data_parser/v0.0.44";
/// Slurm's name of the writer of these documents.
const PLUGIN: &str = "openapi/slurmctld";

/// The user that asked, and the words of the command; a part of each document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The command and its words.
    pub command: Vec<String>,
    /// The user.
    pub user: String,
    /// The group of the user.
    pub group: String,
}

/// A whole document: the records under their name, and what every document has.
fn document(records: &str, list: Vec<Value>, more: Fields, asked: &Asked, show: &Show) -> String {
    let mut all = fields([(records, Value::Array(list))]);
    all.extend(more);
    let version = crate::VERSION.trim_start_matches("slurm ");
    let mut parts = version.split('.').map(|part| part.trim_start_matches('0'));
    let mut part = || parts.next().filter(|part| !part.is_empty()).unwrap_or("0").to_owned();
    let (major, minor, micro) = (part(), part(), part());
    let meta = json!({
        "plugin": {
            "type": PLUGIN,
            "name": "Slurm OpenAPI slurmctld",
            "data_parser": DATA_PARSER,
            "accounting_storage": "",
        },
        "client": { "source": "", "user": asked.user, "group": asked.group },
        "command": asked.command,
        "slurm": {
            "version": { "major": major, "micro": micro, "minor": minor },
            "release": version,
            "cluster": show.cluster,
        },
    });
    all.extend(fields([("meta", meta), ("errors", json!([])), ("warnings", json!([]))]));
    let text = serde_json::to_string_pretty(&Value::Object(all)).unwrap_or_default();
    text + "\n"
}

/// The fields of an object.
type Fields = Map<String, Value>;

fn fields<'a>(all: impl IntoIterator<Item = (&'a str, Value)>) -> Fields {
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A number that may be unset.
fn number(value: Option<u64>) -> Value {
    json!({ "set": value.is_some(), "infinite": false, "number": value.unwrap_or(0) })
}

/// A number without which there is no limit.
fn limit(value: Option<u64>) -> Value {
    json!({ "set": value.is_some(), "infinite": value.is_none(), "number": value.unwrap_or(0) })
}

/// Seconds since 1970; 0 if unset.
fn seconds(time: Option<Timestamp>) -> u64 {
    time.and_then(|time| u64::try_from(time.as_second()).ok()).unwrap_or(0)
}

/// A time as a number that may be unset.
fn time(time: Option<Timestamp>) -> Value {
    number(time.map(|at| seconds(Some(at))))
}

/// A length of time in minutes, rounded up.
fn minutes(seconds: Option<u64>) -> Option<u64> {
    seconds.map(|seconds| seconds.div_ceil(60))
}

/// A text; empty if unset.
fn text(text: &Option<String>) -> Value {
    Value::from(text.clone().unwrap_or_default())
}

fn exit(code: ExitCode) -> Value {
    let status = match (code.code, code.signal) {
        (0, 0) => "SUCCESS",
        (_, 0) => "ERROR",
        (_, _) => "SIGNALED",
    };
    let signal = Some(u64::from(code.signal)).filter(|signal| *signal > 0);
    json!({
        "status": [status],
        "return_code": number(Some(code.code.into())),
        "signal": { "id": number(signal), "name": code.signal_name() },
    })
}

#[cfg(test)]
mod tests;
