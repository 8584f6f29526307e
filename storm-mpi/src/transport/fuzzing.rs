//! Cards and hellos for [`crate::fuzzing`].

use super::directory::{Card, Token};
use super::greeting;
use super::rdma::Offer;

pub(crate) fn card(text: &str) {
    let Ok(card) = text.parse::<Card>() else { return };
    assert_eq!(card.to_string().parse::<Card>().expect("its own text"), card);
}

pub(crate) fn offer(bytes: &[u8]) {
    if let Some(offer) = Offer::decode(bytes) {
        assert_eq!(Offer::decode(&offer.encode()), Some(offer));
    }
}

pub(crate) fn hello(bytes: &[u8], token: u128) -> Option<u32> {
    greeting::parse_hello(bytes, Token(token)).map(|rank| rank.0)
}
