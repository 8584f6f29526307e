//! Measurement of this host's [`Thresholds`]: two threads send each other 64 bytes, as ranks do.
//!
//! The network between hosts is not measured. Bytes from another host take longer than the measured
//! path through this host's stack alone.

use super::ends::{ConsumerEnd, ProducerEnd};
use super::inbox::{Inbox, LocalIndex};
use super::poller::{Poller, Watched};
use crate::thresholds::Thresholds;
use nix::sys::eventfd::EventFd;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Round trips of each kind, if time permits.
const ROUNDS: usize = 200;
/// Time limit of each kind: on a busy host, other processes get their turns in between.
const LIMIT: Duration = Duration::from_millis(20);
/// Bytes of a message.
const BYTES: usize = 64;
/// The first byte of the last message.
const LAST: u8 = 1;
/// Sent with the last round to end the sleeper.
const LAST_WAKE: u64 = 2;

impl Thresholds {
    /// Measures the thresholds on this host with two threads, within some ten milliseconds.
    ///
    /// # Errors
    /// The system denies a resource that the measurement needs.
    pub fn measure() -> io::Result<Thresholds> {
        let wake = wake()? / 2;
        let known = Thresholds::default();
        // Two threads that poll need two processors.
        let local = match std::thread::available_parallelism().map_or(1, usize::from) {
            1 => known.local,
            _ => local()?,
        };
        // If other processes use the second processor, the two threads took turns and the
        // measurement is useless.
        let (local, remote) = (local.min(known.local.max(2 * wake)), remote()?);
        Ok(Thresholds { local, remote: remote.min(known.remote.max(4 * wake)), wake })
    }
}

/// A round trip between two threads that sleep.
fn wake() -> io::Result<Duration> {
    let (there, back) = (EventFd::new()?, EventFd::new()?);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| -> io::Result<()> {
            while there.read()? < LAST_WAKE {
                back.write(1)?;
            }
            Ok(())
        });
        let measured = quartile(|| {
            there.write(1)?;
            back.read()?;
            Ok(())
        });
        there.write(LAST_WAKE)?;
        joined(answering)?;
        measured
    })
}

/// A round trip through shared memory between two threads that poll.
fn local() -> io::Result<Duration> {
    let (mine, my_file) = Inbox::create(2, LocalIndex(0))?;
    let (theirs, their_file) = Inbox::create(2, LocalIndex(1))?;
    let to_them = Inbox::attach(&their_file, 2, LocalIndex(1))?;
    let to_me = Inbox::attach(&my_file, 2, LocalIndex(0))?;
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || -> io::Result<()> {
            let (mut taken, mut given) = (ConsumerEnd::default(), ProducerEnd::default());
            loop {
                let message = take(&theirs, LocalIndex(0), &mut taken)?;
                if message[0] == LAST {
                    return Ok(());
                }
                give(&to_me, LocalIndex(1), &mut given, &message)?;
            }
        });
        let (mut taken, mut given) = (ConsumerEnd::default(), ProducerEnd::default());
        let measured = quartile(|| {
            give(&to_them, LocalIndex(0), &mut given, &[0; BYTES])?;
            take(&mine, LocalIndex(1), &mut taken).map(drop)
        });
        give(&to_them, LocalIndex(0), &mut given, &[LAST; BYTES])?;
        joined(answering)?;
        measured
    })
}

/// A round trip through TCP between two threads that poll.
fn remote() -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut mine = TcpStream::connect(listener.local_addr()?)?;
    let (mut theirs, _) = listener.accept()?;
    for stream in [&mine, &theirs] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || -> io::Result<()> {
            let poller = watching(&theirs)?;
            while look(&poller, &mut theirs)? {
                theirs.write_all(&[0; BYTES])?;
            }
            Ok(())
        });
        let poller = watching(&mine)?;
        let measured = quartile(|| {
            mine.write_all(&[0; BYTES])?;
            look(&poller, &mut mine).map(drop)
        });
        drop(mine);
        joined(answering)?;
        measured
    })
}

fn watching(stream: &TcpStream) -> io::Result<Poller> {
    let poller = Poller::new()?;
    poller.watch(stream, Watched::Bell, false)?;
    Ok(poller)
}

/// Polls until a message is there, as ranks do. Returns false at the end of the stream.
fn look(poller: &Poller, stream: &mut TcpStream) -> io::Result<bool> {
    let (mut message, mut got, mut happenings) = ([0; BYTES], 0, Vec::new());
    while got < BYTES {
        poller.wait(false, &mut happenings)?;
        if happenings.is_empty() {
            continue;
        }
        match stream.read(&mut message[got..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => got += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn give(
    inbox: &Inbox,
    from: LocalIndex,
    end: &mut ProducerEnd,
    message: &[u8; BYTES],
) -> io::Result<()> {
    end.push(&inbox.ring(from), [message, &[]]).map_err(broken)?;
    // No rank sleeps here.
    let _ = inbox.rouse();
    Ok(())
}

fn take(inbox: &Inbox, from: LocalIndex, end: &mut ConsumerEnd) -> io::Result<[u8; BYTES]> {
    let ring = inbox.ring(from);
    while end.unread(&ring).map_err(broken)? < BYTES {
        std::hint::spin_loop();
    }
    let mut message = [0; BYTES];
    end.copy(&ring, 0, &mut message);
    // No rank waits for space here.
    end.advance(&ring, BYTES);
    Ok(message)
}

fn broken<E>(_: E) -> io::Error {
    io::Error::other("the shared memory of a measurement is not what was written there")
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a measurement broke off")))
}

/// The time that a quarter of the rounds does not exceed. It leaves out rounds that other processes
/// on the host disturbed.
fn quartile(mut round: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed());
        if begun.elapsed() > LIMIT {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_measured_and_takes_some_time() {
        let measured = Thresholds::measure().unwrap();
        let Thresholds { local, remote, wake } = measured;
        assert!([local, remote, wake].iter().all(|time| !time.is_zero()), "{measured:?}");
    }
}
