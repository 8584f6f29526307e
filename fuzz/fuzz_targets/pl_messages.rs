//! The messages between Node Manager, keeper and Program Launcher.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use storm_pl::{Credentials, LaunchSpec, RankSpec, fuzzing};

#[derive(Arbitrary, Debug)]
enum Play<'a> {
    /// To or from the keeper.
    Message(u8, &'a [u8]),
    /// To a PL.
    Launch(&'a [u8]),
    /// The same as a Node Manager encodes it, with some bytes changed.
    Changed {
        original: bool,
        args: Vec<Vec<u8>>,
        env: Vec<(Vec<u8>, Vec<u8>)>,
        changes: Vec<(u16, u8)>,
    },
}

fuzz_target!(|play: Play<'_>| {
    let (original, args, env, changes) = match play {
        Play::Message(kind, bytes) => return fuzzing::message(kind, bytes),
        Play::Launch(bytes) => {
            fuzzing::launch(bytes);
            return;
        }
        Play::Changed { original, args, env, changes } => (original, args, env, changes),
    };
    let spec = LaunchSpec {
        program: PathBuf::from("/program"),
        original: original.then(|| PathBuf::from("/original")),
        args: args.into_iter().map(OsString::from_vec).collect(),
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        umask: 0o22,
        credentials: Credentials { uid: 1000, gid: 1000, groups: vec![1000] },
        limits: Vec::new(),
        pmi: true,
    };
    let text = OsString::from_vec;
    let env = env.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    let rank = RankSpec { env, ..RankSpec::default() };
    let Some(mut message) = fuzzing::launch_message(&spec, &rank) else { return };
    assert!(fuzzing::launch(&message), "its own message is refused");
    for (at, with) in &changes {
        let at = usize::from(*at) % message.len();
        message[at] ^= with;
    }
    fuzzing::launch(&message);
});
