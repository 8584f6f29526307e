//! The message that makes a waiting PL become a rank.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollTimeout, poll};

use crate::carried::Carried;
use crate::launch_spec::{EncodedSpec, SpecBody};
use crate::node::streams::NewStreams;
use crate::seqpacket::{Seqpacket, Wait};

/// How often the descriptors of a rank are sent again (some 20 ms) while too many of this user's
/// descriptors are in flight. The receivers of the descriptors may still wait for a processor.
const SEND_TRIES_MAX: u32 = 20;
const SEND_AGAIN_MS: u16 = 1;

/// Sends the set of carried descriptors, the length of the rank's part, and this part. The shared
/// part follows, unless it is sent as a file.
pub(super) fn send_launch(
    command: &Seqpacket,
    spec: &EncodedSpec,
    rank: &[u8],
    streams: &NewStreams,
) -> io::Result<()> {
    let mut carried = streams.carried;
    let mut descriptors: Vec<BorrowedFd<'_>> = streams.theirs.iter().map(AsFd::as_fd).collect();
    let shared: &[u8] = match &spec.body {
        SpecBody::Inline(shared) => shared,
        SpecBody::File(file) => {
            carried.insert(Carried::Spec);
            descriptors.push(file.as_fd());
            &[]
        }
    };
    // `RankSpec::encode` has bounded the length.
    let length = (rank.len() as u32).to_le_bytes();
    let carried = [carried.byte()];
    let parts = [&carried[..], &length, rank, shared].map(IoSlice::new);
    let mut tries = 0;
    loop {
        match command.send(&parts, &descriptors, Wait::No) {
            Err(error)
                if error.raw_os_error() == Some(libc::ETOOMANYREFS) && tries < SEND_TRIES_MAX =>
            {
                tries += 1;
                let _ = poll(&mut [], PollTimeout::from(SEND_AGAIN_MS));
            }
            sent => return sent,
        }
    }
}
