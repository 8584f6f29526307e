//! What a rank and the server of its node say to each other before the rank executes its program:
//! the rank its number, with its PMI connection; the server the rank's environment, or a refusal.

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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
    let (number, descriptors) = (rank.to_le_bytes(), [pmi.as_raw_fd()]);
    sendmsg::<()>(
        server.as_raw_fd(),
        &[IoSlice::new(&number)],
        &[ControlMessage::ScmRights(&descriptors)],
        MsgFlags::empty(),
        None,
    )?;
    let mut answer = Vec::new();
    server.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
    match answer.split_first() {
        Some((&GRANTED, text)) => {
            Ok(Ok(text.split(|byte| *byte == 0).filter_map(variable).collect()))
        }
        Some((&REFUSED, text)) => Ok(Err(String::from_utf8_lossy(text).into_owned())),
        Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The server's part: who asks, and its PMI connection.
pub(crate) fn asked(rank: &UnixStream) -> io::Result<(u32, UnixStream)> {
    let mut number = [0; 4];
    let mut space = cmsg_space!([RawFd; 1]);
    let mut slices = [IoSliceMut::new(&mut number)];
    let message =
        recvmsg::<()>(rank.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let (bytes, mut pmi) = (message.bytes, None);
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = part {
            for descriptor in descriptors {
                // SAFETY: the kernel has just opened it for us, and nobody else knows it.
                pmi = Some(unsafe { UnixStream::from_raw_fd(descriptor) });
            }
        }
    }
    match pmi {
        Some(pmi) if bytes == number.len() => Ok((u32::from_le_bytes(number), pmi)),
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
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
