//! What a rank and the server of its node say to each other before the rank executes its program:
//! the rank its number, with its PMI connection; the server the rank's environment, or a refusal.

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;

/// Before an environment.
const GRANTED: u8 = b'+';
/// Before a refusal.
const REFUSED: u8 = b'-';
/// The longest answer: a few variables.
const ANSWER_MAX_BYTES: u64 = 1 << 20;

/// Variables that a rank has besides its own.
pub(crate) type Environment = Vec<(OsString, OsString)>;

/// The rank's part: `pmi` is open in the server from now on.
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

/// What a server's answer means; `None` for what is none.
pub(crate) fn understood(answer: &[u8]) -> Option<Result<Environment, String>> {
    match answer.split_first()? {
        (&GRANTED, text) => Some(Ok(text.split(|byte| *byte == 0).filter_map(variable).collect())),
        (&REFUSED, text) => Some(Err(String::from_utf8_lossy(text).into_owned())),
        _ => None,
    }
}

/// The server's part: who asks, and its PMI connection.
pub(crate) fn asked(rank: &UnixStream) -> io::Result<(u32, UnixStream)> {
    let (rank, [pmi]) = receive_descriptors(rank)?;
    Ok((rank, pmi.into()))
}

/// Hands descriptors that belong to a rank over.
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

/// Takes what [`send_descriptors`] has sent: so many.
pub(crate) fn receive_descriptors<const COUNT: usize>(
    from: &UnixStream,
) -> io::Result<(u32, [OwnedFd; COUNT])> {
    let mut number = [0; 4];
    let mut space = cmsg_space!([RawFd; COUNT]);
    let mut slices = [IoSliceMut::new(&mut number)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(from.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            message => break message?,
        }
    };
    let (bytes, mut received) = (message.bytes, Vec::new());
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = part {
            for descriptor in descriptors {
                // SAFETY: the kernel has just opened it for us, and nobody else knows it.
                received.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }
    match received.try_into() {
        Ok(received) if bytes == number.len() => Ok((u32::from_le_bytes(number), received)),
        Ok(_) | Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Answers, and says nothing more.
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

    #[test]
    fn who_hands_over_nothing_or_too_much_is_not_admitted() {
        let (rank, server) = UnixStream::pair().expect("a pair");
        (&rank).write_all(&[1, 0, 0, 0]).expect("written");
        assert!(asked(&server).is_err(), "no descriptor");
        let (one, other) = (rank.as_fd(), server.as_fd());
        send_descriptors(&rank, 2, &[one, other]).expect("sent");
        assert!(matches!(asked(&server), Ok((2, _)) | Err(_)), "what is too much is closed");
        send_descriptors(&rank, 3, &[one, other]).expect("sent");
        let (number, [_, _]) = receive_descriptors(&server).expect("both");
        assert_eq!(number, 3);
        drop(rank);
        assert!(asked(&server).is_err(), "it is gone");
    }

    #[test]
    fn a_rank_is_told_what_the_server_says_and_its_connection_stays_open() {
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
