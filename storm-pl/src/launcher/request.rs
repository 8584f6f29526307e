//! Decodes a launch message without copying its strings: `execve` gets pointers into the message.
//!
//! The sender is the NM, but the bytes are still checked: a malformed message is a
//! [`LaunchStep::Request`](crate::LaunchStep) failure, never a panic.

use std::ffi::CStr;

use serde::de::DeserializeOwned;

use crate::launch_spec::{RankHead, SpecHead};

/// A decoded launch message.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: SpecHead,
    pub(crate) rank: RankHead,
    pub(crate) program: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) args: Vec<&'a CStr>,
    /// Variables of the rank first; those of the job that they do not replace after them.
    pub(crate) env: Vec<&'a CStr>,
    pub(crate) stdin: &'a CStr,
    pub(crate) stdout: &'a CStr,
    pub(crate) stderr: &'a CStr,
}

impl<'a> Request<'a> {
    /// Splits a message into the rank's part and, when it came inline, the shared part.
    pub(crate) fn split(message: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (length, rest) = message.split_first_chunk::<4>()?;
        rest.split_at_checked(u32::from_le_bytes(*length) as usize)
    }

    /// Decodes both parts; `None` if they are not what [`crate::EncodedSpec`] makes.
    pub(crate) fn decode(rank: &'a [u8], shared: &'a [u8]) -> Option<Self> {
        let (head, mut strings): (SpecHead, _) = Strings::open(shared)?;
        let program = strings.next()?;
        let cwd = strings.next()?;
        let args = strings.take(head.args)?;
        let shared_env = strings.take(head.variables)?;
        strings.end()?;
        let (rank, mut strings): (RankHead, _) = Strings::open(rank)?;
        let mut env = strings.take(rank.variables)?;
        let (stdin, stdout, stderr) = (strings.next()?, strings.next()?, strings.next()?);
        strings.end()?;
        let own = env.len();
        for variable in shared_env {
            if !env[..own].iter().any(|mine| name(mine) == name(variable)) {
                env.push(variable);
            }
        }
        Some(Self { head, rank, program, cwd, args, env, stdin, stdout, stderr })
    }

    /// The value of a variable the application will see.
    pub(crate) fn variable(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        self.env
            .iter()
            .find(|variable| name(variable) == wanted)
            .and_then(|variable| variable.to_bytes().get(wanted.len() + 1..))
    }
}

/// Bytes before the first `=`.
fn name(variable: &CStr) -> &[u8] {
    let bytes = variable.to_bytes();
    bytes.split(|&byte| byte == b'=').next().unwrap_or(bytes)
}

/// The strings after a head.
struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    fn open<T: DeserializeOwned>(part: &'a [u8]) -> Option<(T, Self)> {
        let (head, strings) = Request::split(part)?;
        Some((postcard::from_bytes(head).ok()?, Self(strings)))
    }

    fn next(&mut self) -> Option<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = &self.0[text.count_bytes() + 1..];
        Some(text)
    }

    fn take(&mut self, count: u32) -> Option<Vec<&'a CStr>> {
        // A string takes at least its NUL: a larger count is a lie and would only cost memory.
        if count as usize > self.0.len() {
            return None;
        }
        (0..count).map(|_| self.next()).collect()
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
