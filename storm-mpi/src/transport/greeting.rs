//! The greeting of a TCP connection between ranks. The dialing rank names itself. The dialed rank
//! confirms that this is the connection of the two.
//!
//! The greeting does not prove that the dialed process belongs to the job. Its address comes from
//! the process manager.

use super::directory::Token;
use super::rdma::{OFFER_BYTES, Offer};
use crate::rank::Rank;

pub(super) const HELLO_BYTES: usize = 32;
const HELLO_MAGIC: [u8; 8] = *b"STORMPI2";
/// Begins a hello that is followed by an [`Offer`].
const OFFERING_MAGIC: [u8; 8] = *b"STORMPV2";
/// The answer to a hello.
pub(super) const WELCOME: [u8; 8] = *b"STORMOK2";
/// The answer to a hello with an offer. The answering offer follows, and bytes use RDMA.
const WELCOME_BY_RDMA: [u8; 8] = *b"STORMOV2";
/// Sent by the dialing rank when it is ready to receive by RDMA.
pub(super) const READY: u8 = b'R';
/// Sent by the dialing rank if it cannot use the answered offer: bytes use the socket.
pub(super) const BY_SOCKET: u8 = b'S';

/// The hello of this rank, which knows the job's token.
pub(super) fn hello(token: Token, me: Rank) -> [u8; HELLO_BYTES] {
    hello_of(HELLO_MAGIC, token, me)
}

pub(super) fn hello_offering(token: Token, me: Rank, offer: &Offer) -> Vec<u8> {
    [&hello_of(OFFERING_MAGIC, token, me)[..], &offer.encode()].concat()
}

/// The answer to an offer.
pub(super) fn welcome_by_rdma(offer: &Offer) -> Vec<u8> {
    [&WELCOME_BY_RDMA[..], &offer.encode()].concat()
}

/// Length of the hello or welcome with this beginning.
pub(super) fn greeting_bytes(plain: usize, beginning: &[u8]) -> usize {
    let offers = [OFFERING_MAGIC, WELCOME_BY_RDMA].iter().any(|magic| beginning.starts_with(magic));
    if offers { plain + OFFER_BYTES } else { plain }
}

/// The offer behind a hello of `plain` bytes. `Err` means that it is not valid.
pub(super) fn offer_behind(plain: usize, greeting: &[u8]) -> Result<Option<Offer>, ()> {
    match greeting.get(plain..) {
        None | Some([]) => Ok(None),
        Some(offer) => Offer::decode(offer).map(Some).ok_or(()),
    }
}

/// The answer of the dialed rank: its offer if bytes use RDMA, else `Some(None)`. `None` means that
/// the process does not belong to this job.
pub(super) fn parse_welcome(answer: &[u8]) -> Option<Option<Offer>> {
    if answer.starts_with(&WELCOME_BY_RDMA) {
        return offer_behind(WELCOME.len(), answer).ok();
    }
    (answer == WELCOME).then_some(None)
}

fn hello_of(magic: [u8; 8], token: Token, me: Rank) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..24].copy_from_slice(&token.0.to_le_bytes());
    bytes[24..].copy_from_slice(&u64::from(me.0).to_le_bytes());
    bytes
}

/// The rank that sent the hello, if it knows the token.
pub(super) fn parse_hello(bytes: &[u8], token: Token) -> Option<Rank> {
    let magic = if bytes.starts_with(&OFFERING_MAGIC) { OFFERING_MAGIC } else { HELLO_MAGIC };
    let expected = hello_of(magic, token, Rank(0));
    let (fixed, rank) = bytes.split_at_checked(HELLO_BYTES - 8)?;
    // The comparison has no early end, so its duration reveals nothing about the token.
    let differ = fixed.iter().zip(&expected).fold(0, |acc, (a, b)| acc | (a ^ b));
    let rank = u64::from_le_bytes(rank.try_into().ok()?);
    if differ == 0 { u32::try_from(rank).ok().map(Rank) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_needs_the_token() {
        let bytes = hello(Token(7), Rank(3));
        assert_eq!(parse_hello(&bytes, Token(7)), Some(Rank(3)));
        assert_eq!(parse_hello(&bytes, Token(8)), None);
        assert_eq!(parse_hello(&bytes[1..], Token(7)), None);
    }
}
