//! How a rank gets its segment: it asks for it over its PMI connection, and the answer carries the
//! descriptors. Programs of other libraries never ask, and never see any of it.

use super::NodeEnd;
use crate::pmi::client::PmiError;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The request, without its newline; the version is that of the segment's layout.
pub const SEGMENT_REQUEST: &str = concat!("cmd=storm_segment version=", layout_version!());
/// The answer, with its newline.
const ANSWER: &[u8] = b"cmd=storm_segment rc=0\n";

/// Answers [`SEGMENT_REQUEST`] on the node's end of a rank's PMI connection.
///
/// # Errors
/// What the system says.
pub fn hand_over(connection: impl AsFd, end: &NodeEnd) -> io::Result<()> {
    let descriptors = end.descriptors().map(|fd| fd.as_raw_fd());
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let connection = connection.as_fd().as_raw_fd();
    let sent = sendmsg::<()>(connection, &[IoSlice::new(ANSWER)], &rights, flags, None)?;
    if sent == ANSWER.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads the answer: the memory and the bell.
pub(crate) fn ask_for_segment(connection: impl AsFd) -> Result<[OwnedFd; 2], PmiError> {
    let mut answer = [0; ANSWER.len()];
    let (mut got, mut descriptors) = (0, Vec::new());
    while got < answer.len() {
        let mut space = cmsg_space!([RawFd; 2]);
        let mut into = [IoSliceMut::new(&mut answer[got..])];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let connection = connection.as_fd().as_raw_fd();
        let message = match recvmsg::<()>(connection, &mut into, Some(&mut space), flags) {
            Ok(message) => message,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(PmiError::Io(error.into())),
        };
        for control in message.cmsgs().map_err(io::Error::from)? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                // SAFETY: the kernel has just opened them for this process; nobody else knows them.
                descriptors.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        if message.bytes == 0 {
            return Err(PmiError::Closed);
        }
        got += message.bytes;
    }
    let unexpected = PmiError::Unexpected { request: "storm_segment" };
    match (answer == *ANSWER, descriptors.try_into()) {
        (true, Ok(descriptors)) => Ok(descriptors),
        _ => Err(unexpected),
    }
}

#[cfg(test)]
mod tests {
    use super::super::RankEnd;
    use super::*;
    use crate::rank::Rank;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_answer_carries_the_segment() {
        let (node, rank) = UnixStream::pair().expect("a pair");
        let end = NodeEnd::create().expect("a segment");
        hand_over(&node, &end).expect("sent");
        let descriptors = ask_for_segment(&rank).expect("received");
        RankEnd::attach(descriptors, Rank(0), 1).expect("a segment");
    }

    #[test]
    fn a_refusal_is_no_segment() {
        let (node, rank) = UnixStream::pair().expect("a pair");
        io::Write::write_all(&mut &node, b"cmd=unknown rc=-1 msg=what?\n").expect("sent");
        assert!(matches!(ask_for_segment(&rank), Err(PmiError::Unexpected { .. })));
    }
}
