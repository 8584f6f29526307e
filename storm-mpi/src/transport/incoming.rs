//! What comes by one socket: the hello, then bytes, read ahead into a buffer unless much of them has
//! one place to go.

use super::tcp::HELLO_BYTES;
use crate::rank::Rank;
use socket2::SockRef;
use std::io::{self, Read};
use std::net::TcpStream;
use std::ops::Range;

/// Read from the kernel at once; larger payloads go straight to their place.
const READ_BUFFER_BYTES: usize = 32 << 10;

/// Reads ahead after which the kernel is asked again to delay acknowledgements.
const READS_BETWEEN_ASKING: u32 = 16;

/// A connection that another rank has made, or a stranger.
pub(super) struct Incoming {
    stream: TcpStream,
    pub(super) from: Option<Rank>,
    hello: Vec<u8>,
    /// Empty until something is read ahead.
    buffer: Box<[u8]>,
    /// What of it was read and not taken.
    ahead: Range<usize>,
    /// The last read left nothing behind: until there is news another one would bring nothing.
    dry: bool,
    /// Until the kernel is asked again.
    reads_left: u32,
}

impl Incoming {
    pub(super) fn new(stream: TcpStream) -> Self {
        let (hello, buffer) = (Vec::new(), Box::default());
        Incoming { stream, from: None, hello, buffer, ahead: 0..0, dry: false, reads_left: 0 }
    }

    /// There is news: another read may bring something.
    pub(super) fn has_news(&mut self) {
        self.dry = false;
    }

    /// Copies bytes that were read ahead, from the `skip`-th on.
    pub(super) fn copy(&self, skip: usize, into: &mut [u8]) {
        let ahead = &self.buffer[self.ahead.clone()];
        into.copy_from_slice(&ahead[skip..skip + into.len()]);
    }

    /// Lets go of bytes that were read ahead.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.ahead.start = (self.ahead.start + bytes).min(self.ahead.end);
    }

    /// Reads much to where it belongs; `None` when it is little, or something was read ahead.
    pub(super) fn read_directly(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        let direct = into.len() >= READ_BUFFER_BYTES && self.ahead.is_empty();
        direct.then(|| self.read(into))
    }

    /// The hello, once it has come as a whole.
    pub(super) fn read_hello(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = [0; HELLO_BYTES];
        let missing = HELLO_BYTES - self.hello.len();
        match read_some(&mut self.stream, &mut chunk[..missing])? {
            0 => Ok(None),
            n => {
                self.hello.extend_from_slice(&chunk[..n]);
                Ok((self.hello.len() == HELLO_BYTES).then(|| std::mem::take(&mut self.hello)))
            }
        }
    }

    /// Bytes that were read ahead; reads ahead when there are none.
    pub(super) fn unread(&mut self) -> io::Result<usize> {
        if self.ahead.is_empty() && !self.dry {
            if self.buffer.is_empty() {
                self.buffer = vec![0; READ_BUFFER_BYTES].into_boxed_slice();
            }
            let filled = read_some(&mut self.stream, &mut self.buffer)?;
            self.delay_acks(filled);
            self.dry = filled < READ_BUFFER_BYTES;
            self.ahead = 0..filled;
        }
        Ok(self.ahead.len())
    }

    /// Asks the kernel not to acknowledge each message at once (tcp(7), `TCP_QUICKACK`). Nothing goes
    /// back on this connection that an acknowledgement could go with, so each would be a packet, and
    /// its sender's processor busy with it while the answer waits: a fifth of a short message's time.
    /// The kernel forgets it now and then, so it is asked again.
    fn delay_acks(&mut self, read: usize) {
        if read == 0 {
            return;
        }
        match self.reads_left.checked_sub(1) {
            Some(left) => self.reads_left = left,
            None => {
                self.reads_left = READS_BETWEEN_ASKING;
                // Without it messages are slower, and nothing else.
                let _ = SockRef::from(&self.stream).set_tcp_quickack(false);
            }
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.dry {
            return Ok(0);
        }
        let read = read_some(&mut self.stream, into)?;
        self.dry = read < into.len();
        Ok(read)
    }
}

/// Reads once; 0 when there is nothing now, `ConnectionReset` at the end of the stream.
fn read_some(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Ok(0) if !into.is_empty() => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(n) => return Ok(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
