//! The dialogue between a rank and the server of its node, before the rank executes its program.
//! The rank sends its number and its PMI connection. The server answers with the rank's
//! environment, or refuses.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;

/// Marks an environment.
const GRANTED: u8 = b'+';
/// Marks a refusal.
const REFUSED: u8 = b'-';
/// Longest answer: a few variables.
const ANSWER_MAX_BYTES: u64 = 1 << 20;

/// A rank's variables in addition to its own.
pub(crate) type Environment = Vec<(OsString, OsString)>;

/// The rank's part. `pmi` stays open in the server from now on.
pub(crate) fn ask(
    server: &mut UnixStream,
    rank: u32,
    pmi: &OwnedFd,
) -> io::Result<Result<Environment, String>> {
    send_descriptors(server, rank, &[pmi.as_fd()])?;
    let mut answer = Vec::new();
    server.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
    understood(&answer).ok_or(io::ErrorKind::UnexpectedEof.into())
}

/// The meaning of a server's answer. `None` if it is not valid.
pub(crate) fn understood(answer: &[u8]) -> Option<Result<Environment, String>> {
    match answer.split_first()? {
        (&GRANTED, text) => Some(Ok(text.split(|byte| *byte == 0).filter_map(variable).collect())),
        (&REFUSED, text) => Some(Err(String::from_utf8_lossy(text).into_owned())),
        _ => None,
    }
}

/// The server's part: reads the rank's number and its PMI connection.
pub(crate) fn asked(rank: &UnixStream) -> io::Result<(u32, UnixStream)> {
    let (rank, [pmi]) = receive_descriptors(rank)?;
    Ok((rank, pmi.into()))
}

/// Hands over descriptors of a rank.
pub(crate) fn send_descriptors(
    to: &UnixStream,
    rank: u32,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let number = rank.to_le_bytes();
    let (text, descriptors) = ([IoSlice::new(&number)], [ControlMessage::ScmRights(&raw)]);
    sendmsg::<()>(to.as_raw_fd(), &text, &descriptors, MsgFlags::empty(), None)?;
    Ok(())
}

/// Takes `COUNT` descriptors that [`send_descriptors`] has sent. If there are more, none stays
/// open.
pub(crate) fn receive_descriptors<const COUNT: usize>(
    from: &UnixStream,
) -> io::Result<(u32, [OwnedFd; COUNT])> {
    let mut number = [0; 4];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut number)];
    let message = loop {
        match recvmsg(from, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            message => break message?,
        }
    };
    let mut received = Vec::new();
    // The loop also runs if the kernel truncated the message: the descriptors that arrived are
    // open.
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            received.extend(descriptors);
        }
    }
    let is_whole = message.bytes == number.len() && !message.flags.contains(ReturnFlags::CTRUNC);
    match received.try_into() {
        Ok(received) if is_whole => Ok((u32::from_le_bytes(number), received)),
        Ok(_) | Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends the answer and ends the dialogue.
pub(crate) fn answer(rank: &mut UnixStream, what: Result<&Environment, &str>) -> io::Result<()> {
    let mut text = Vec::new();
    match what {
        Ok(environment) => {
            text.push(GRANTED);
            for (name, value) in environment {
                text.extend_from_slice(name.as_bytes());
                text.push(b'=');
                text.extend_from_slice(value.as_bytes());
                text.push(0);
            }
        }
        Err(reason) => {
            text.push(REFUSED);
            text.extend_from_slice(reason.as_bytes());
        }
    }
    rank.write_all(&text)?;
    rank.shutdown(Shutdown::Both)
}

/// `NAME=VALUE`.
pub(crate) fn variable(text: &[u8]) -> Option<(OsString, OsString)> {
    let at = text.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((own(&text[..at]), own(&text[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of descriptors of this process that are open on a pipe.
    fn open_on(pipe: &io::PipeReader) -> usize {
        let link = |fd: String| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
        let own = link(pipe.as_raw_fd().to_string());
        let all = std::fs::read_dir("/proc/self/fd").expect("a list").flatten();
        all.filter(|fd| link(fd.file_name().to_string_lossy().into_owned()) == own).count()
    }

    #[test]
    fn a_rank_that_hands_over_too_little_or_too_much_is_refused() {
        let (rank, server) = UnixStream::pair().expect("a pair");
        (&rank).write_all(&[1, 0, 0, 0]).expect("written");
        assert!(asked(&server).is_err(), "no descriptor");
        let (one, other) = (rank.as_fd(), server.as_fd());
        let (reader, writer) = io::pipe().expect("a pipe");
        send_descriptors(&rank, 2, &[writer.as_fd(); 4]).expect("sent");
        drop(writer);
        assert!(asked(&server).is_err(), "too many");
        assert_eq!(open_on(&reader), 1, "what is too much is closed");
        send_descriptors(&rank, 3, &[one, other]).expect("sent");
        let (number, [_, _]) = receive_descriptors(&server).expect("both");
        assert_eq!(number, 3);
        drop(rank);
        assert!(asked(&server).is_err(), "it is gone");
    }

    #[test]
    fn a_rank_gets_the_servers_answer_and_its_connection_stays_open() {
        let (mut rank, mut server) = UnixStream::pair().expect("a pair");
        let (pmi, mut node) = UnixStream::pair().expect("a pair");
        let environment: Environment = vec![("A".into(), "b=c".into()), ("D".into(), "".into())];
        let sent = environment.clone();
        let serving = std::thread::spawn(move || {
            let (number, mut pmi) = asked(&server).expect("asked");
            answer(&mut server, Ok(&sent)).expect("answered");
            pmi.write_all(b"x").expect("open");
            number
        });
        let told = ask(&mut rank, 3, &pmi.into()).expect("answered");
        assert_eq!(told, Ok(environment));
        assert_eq!(serving.join().expect("no panic"), 3);
        let mut byte = [0];
        node.read_exact(&mut byte).expect("the server wrote");
    }
}
