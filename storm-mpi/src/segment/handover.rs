//! The handover of a segment. A rank requests it over its PMI connection, and the answer carries
//! the descriptors. Programs of other libraries never request it, and never see any of it.

use super::NodeEnd;
use crate::pmi::client::PmiError;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The request, without its newline. The version is that of the segment's layout.
pub const SEGMENT_REQUEST: &str = concat!("cmd=storm_segment version=", layout_version!());
/// The answer, with its newline.
const ANSWER: &[u8] = b"cmd=storm_segment rc=0\n";

/// Answers [`SEGMENT_REQUEST`] on the node's end of a rank's PMI connection.
///
/// # Errors
/// The system's.
pub fn hand_over(connection: impl AsFd, end: &NodeEnd) -> io::Result<()> {
    let descriptors = end.descriptors().map(|fd| fd.as_raw_fd());
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let connection = connection.as_fd().as_raw_fd();
    let sent = sendmsg::<()>(connection, &[IoSlice::new(ANSWER)], &rights, flags, None)?;
    if sent == ANSWER.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads the answer: the memory and the bell. If an answer has more descriptors, none stays open.
pub(crate) fn ask_for_segment(connection: impl AsFd) -> Result<[OwnedFd; 2], PmiError> {
    let mut answer = [0; ANSWER.len()];
    let (mut got, mut descriptors, mut is_cut) = (0, Vec::new(), false);
    while got < answer.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut answer[got..])];
        let message = match recvmsg(&connection, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => message,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(PmiError::Io(error.into())),
        };
        // The loop also runs if the kernel truncated the message: the descriptors that arrived are
        // open.
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = part {
                descriptors.extend(came);
            }
        }
        is_cut |= message.flags.contains(ReturnFlags::CTRUNC);
        if message.bytes == 0 {
            return Err(PmiError::Closed);
        }
        got += message.bytes;
    }
    let unexpected = PmiError::Unexpected { request: "storm_segment" };
    match (answer == *ANSWER && !is_cut, descriptors.try_into()) {
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

    /// Number of descriptors of this process that are open on a pipe.
    fn open_on(pipe: &io::PipeReader) -> usize {
        let link = |fd: String| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
        let own = link(pipe.as_raw_fd().to_string());
        let all = std::fs::read_dir("/proc/self/fd").expect("a list").flatten();
        all.filter(|fd| link(fd.file_name().to_string_lossy().into_owned()) == own).count()
    }

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

    #[test]
    fn an_answer_with_too_many_descriptors_leaves_none_open() {
        let (node, rank) = UnixStream::pair().expect("a pair");
        let (reader, writer) = io::pipe().expect("a pipe");
        let descriptors = [writer.as_raw_fd(); 5];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let (text, flags) = ([IoSlice::new(ANSWER)], MsgFlags::MSG_NOSIGNAL);
        sendmsg::<()>(node.as_raw_fd(), &text, &rights, flags, None).expect("sent");
        drop(writer);
        assert!(matches!(ask_for_segment(&rank), Err(PmiError::Unexpected { .. })));
        assert_eq!(open_on(&reader), 1);
    }
}
