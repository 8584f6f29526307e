//! What a TCP connection between ranks begins with: who dials says who it is, and who is dialed that this is
//! the connection of the two.
//!
//! What it does not do: prove that who is dialed belongs to the job. Its address is known from the process manager.

use super::directory::Token;
use crate::rank::Rank;

pub(super) const HELLO_BYTES: usize = 32;
const HELLO_MAGIC: [u8; 8] = *b"STORMPI2";
/// The answer to a hello.
pub(super) const WELCOME: [u8; 8] = *b"STORMOK2";

/// Who dials: this rank, which knows the job's token.
pub(super) fn hello(token: Token, me: Rank) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&HELLO_MAGIC);
    bytes[8..24].copy_from_slice(&token.0.to_le_bytes());
    bytes[24..].copy_from_slice(&u64::from(me.0).to_le_bytes());
    bytes
}

/// The rank that says hello, if it knows the token.
pub(super) fn parse_hello(bytes: &[u8], token: Token) -> Option<Rank> {
    let expected = hello(token, Rank(0));
    let (fixed, rank) = bytes.split_at_checked(HELLO_BYTES - 8)?;
    // Compared without an early end, so that its time tells nothing of the token.
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
