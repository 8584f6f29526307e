//! Decodes a launch message without copying its strings: `execve` gets pointers into the message.
//!
//! The sender is the NM, but the bytes are still checked: a malformed message is a
//! [`LaunchStep::Request`](crate::LaunchStep) failure, never a panic.

use std::ffi::CStr;

use serde::de::DeserializeOwned;

use crate::carried::CarriedSet;
use crate::launch_spec::{RankHead, SpecHead};

/// A decoded launch message.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: SpecHead,
    pub(crate) rank: RankHead,
    pub(crate) program: &'a CStr,
    /// Empty if there is none.
    pub(crate) original: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) args: Vec<&'a CStr>,
    /// The variables of the rank, then those of the job that the rank does not replace.
    pub(crate) env: Vec<&'a CStr>,
    pub(crate) stdin: &'a CStr,
    pub(crate) stdout: &'a CStr,
    pub(crate) stderr: &'a CStr,
}

impl<'a> Request<'a> {
    /// Splits a message into its set of descriptors, the rank's part, and the shared part if
    /// inline.
    pub(crate) fn open(message: &'a [u8]) -> Option<(CarriedSet, &'a [u8], &'a [u8])> {
        let (carried, rest) = message.split_first()?;
        let (rank, shared) = Self::split(rest)?;
        Some((CarriedSet::from_byte(*carried)?, rank, shared))
    }

    /// Splits a part that begins with its length from the rest.
    fn split(message: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (length, rest) = message.split_first_chunk::<4>()?;
        rest.split_at_checked(u32::from_le_bytes(*length) as usize)
    }

    /// Decodes both parts. Returns `None` if they differ from the form that [`crate::EncodedSpec`]
    /// makes.
    pub(crate) fn decode(rank: &'a [u8], shared: &'a [u8]) -> Option<Self> {
        let (head, mut strings): (SpecHead, _) = Strings::open(shared)?;
        let (program, original) = (strings.next()?, strings.next()?);
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
            let name = name(variable);
            if !env[..own].iter().any(|mine| is_named(mine, name)) {
                env.push(variable);
            }
        }
        Some(Self { head, rank, program, original, cwd, args, env, stdin, stdout, stderr })
    }

    /// The value of a variable in the application's environment.
    pub(crate) fn variable(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        self.env
            .iter()
            .find(|variable| is_named(variable, wanted))
            .and_then(|variable| variable.to_bytes().get(wanted.len() + 1..))
    }
}

/// The bytes before the first `=`.
fn name(variable: &CStr) -> &[u8] {
    let bytes = variable.to_bytes();
    bytes.split(|&byte| byte == b'=').next().unwrap_or(bytes)
}

/// Whether the variable has this name. Reads only up to the first byte that differs.
fn is_named(variable: &CStr, name: &[u8]) -> bool {
    let rest = variable.to_bytes().strip_prefix(name);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'=')))
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
        // A string has at least its NUL, so a larger count is false and would only cost memory.
        if count as usize > self.0.len() {
            return None;
        }
        (0..count).map(|_| self.next()).collect()
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::launch_spec::SpecBody;
    use crate::{Credentials, Input, LaunchSpec, Output, RankSpec, ResourceLimit};

    fn text() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(1..=255u8, 0..20).prop_map(OsString::from_vec)
    }

    fn variable() -> impl Strategy<Value = (OsString, OsString)> {
        ("[A-Z]{1,3}".prop_map(OsString::from), text())
    }

    prop_compose! {
        fn launch_spec()(
            program in text(),
            original in proptest::option::of("/[a-z]{0,9}"),
            args in proptest::collection::vec(text(), 1..6),
            env in proptest::collection::vec(variable(), 0..6),
            cwd in text(),
            umask in 0..0o1000u32,
            uid in any::<u32>(),
            soft in any::<u64>(),
            pmi in any::<bool>(),
        ) -> LaunchSpec {
            LaunchSpec {
                program: PathBuf::from(program),
                original: original.map(PathBuf::from),
                args,
                env,
                cwd: PathBuf::from(cwd),
                umask,
                credentials: Credentials { uid, gid: uid / 2, groups: vec![uid / 3] },
                limits: vec![ResourceLimit { resource: 7, soft, hard: u64::MAX }],
                pmi,
            }
        }
    }

    fn inline(spec: &LaunchSpec) -> Vec<u8> {
        match spec.encode().unwrap().body {
            SpecBody::Inline(bytes) => bytes.to_vec(),
            SpecBody::File(_) => panic!("too large for a message"),
        }
    }

    proptest! {
        #[test]
        fn encoded_requests_are_decoded(
            spec in launch_spec(),
            env in proptest::collection::vec(variable(), 0..4),
            path in text(),
        ) {
            let rank = RankSpec {
                env,
                stdin: Input::Pipe,
                stdout: Output::File { path: PathBuf::from(&path), append: true },
                stderr: Output::SameAsStdout,
                cpus: vec![3, 900],
            };
            let (rank_bytes, shared) = (rank.encode().unwrap(), inline(&spec));
            let request = Request::decode(&rank_bytes, &shared).unwrap();
            let original = spec.original.clone().unwrap_or_default().into_os_string();
            prop_assert_eq!(request.original.to_bytes(), original.into_vec());
            prop_assert_eq!(request.args.len(), spec.args.len());
            for (got, sent) in request.args.iter().zip(&spec.args) {
                prop_assert_eq!(got.to_bytes(), sent.clone().into_vec());
            }
            prop_assert_eq!(&request.head.credentials, &spec.credentials);
            prop_assert_eq!(&request.head.limits, &spec.limits);
            prop_assert_eq!(request.stdout.to_bytes(), path.into_vec());
            prop_assert_eq!(&request.rank.cpus, &rank.cpus);
            for (name, value) in &rank.env {
                // The first of several variables with the same name counts, as for getenv.
                let first = rank.env.iter().find(|(other, _)| other == name).unwrap();
                let seen = request.variable(&name.clone().into_vec()).unwrap();
                prop_assert_eq!(seen == value.clone().into_vec().as_slice(), &first.1 == value);
            }
            for (name, _) in &spec.env {
                prop_assert!(request.variable(&name.clone().into_vec()).is_some());
            }
        }

        #[test]
        fn damaged_messages_are_refused_or_read_but_never_panic(
            spec in launch_spec(),
            cut in any::<prop::sample::Index>(),
            flipped in any::<prop::sample::Index>(),
            with in 1..=255u8,
        ) {
            let rank = RankSpec::default().encode().unwrap();
            let shared = inline(&spec);
            prop_assert!(Request::decode(&rank, &shared[..cut.index(shared.len())]).is_none());
            let mut damaged = shared.clone();
            damaged[flipped.index(shared.len())] ^= with;
            let _ = Request::decode(&rank, &damaged);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((_, rank, shared)) = Request::open(&noise) {
                let _ = Request::decode(rank, shared);
            }
            let _ = crate::protocol::decode::<crate::protocol::Command>(&noise);
            let _ = crate::protocol::decode::<crate::protocol::Report>(&noise);
        }
    }
}
