//! Many descriptors in one: they wait in a socket, of which only the reading end stays open. A
//! keeper can hold them without knowing them, at the price of one descriptor.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::seqpacket::{MANY_MAX, Seqpacket, Wait};

/// Descriptors per message.
const PER_MESSAGE: usize = MANY_MAX - 1;

/// Packs descriptors, in order.
///
/// # Errors
/// The system's: too many descriptors of this user are on their way, or the socket has no room.
pub fn pack(descriptors: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let (reader, writer) = Seqpacket::pair()?;
    for part in descriptors.chunks(PER_MESSAGE) {
        writer.send(&[IoSlice::new(&[0])], part, Wait::No)?;
    }
    Ok(reader.into())
}

/// Takes the descriptors out, in order. They are then not in the parcel any more, for any process.
///
/// # Errors
/// It is no parcel, or this process has no room for all of them.
pub fn unpack(parcel: OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let reader = Seqpacket::from(parcel);
    let mut all = Vec::new();
    loop {
        let received = reader.receive_many(&mut [0], Wait::No)?;
        if received.cut {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if received.len == 0 {
            return Ok(all);
        }
        all.extend(received.descriptors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_come_out_in_order_also_after_a_journey() {
        for count in [0, 1, PER_MESSAGE, 3 * PER_MESSAGE + 2] {
            let pipes: Vec<_> = (0..count).map(|_| io::pipe().expect("a pipe")).collect();
            let readers: Vec<_> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
            let parcel = pack(&readers).expect("packed");
            // Through a further socket, as to a keeper and back.
            let nested = pack(&[parcel.as_fd()]).expect("packed");
            drop(parcel);
            let inner = unpack(nested).expect("there").pop().expect("one");
            let out = unpack(inner).expect("there");
            assert_eq!(out.len(), count);
            for (index, ((_, mut writer), end)) in pipes.into_iter().zip(out).enumerate() {
                io::Write::write_all(&mut writer, &index.to_le_bytes()).expect("written");
                let mut read = [0; 8];
                File::from(end).read_exact(&mut read).expect("read");
                assert_eq!(usize::from_le_bytes(read), index);
            }
        }
    }

    #[test]
    fn other_descriptors_are_no_parcel() {
        let file = File::open("/dev/null").expect("it is there");
        assert!(unpack(file.into()).is_err());
    }
}
