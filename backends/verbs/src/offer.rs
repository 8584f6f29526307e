//! The offer of one end of a lane: its address, and where to write. It is sent in the session in
//! which both sides have proved their identity.

use crate::abi::Gid;
use crate::guard::{Endpoint, RemoteAddr};
use crate::ring::RING_BYTES;
use crate::slot::{self, REGION_BYTES};
use serde::{Deserialize, Serialize};

/// Changes with every change of the lane's messages.
pub(crate) const LANE_VERSION: u32 = 3;
/// The largest packet number.
pub(crate) const MAX_PACKET_NUMBER: u32 = (1 << 24) - 1;

/// One end of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// [`LANE_VERSION`].
    pub(crate) version: u32,
    /// Length of the ring; both ends have the same.
    pub(crate) ring_bytes: u64,
    /// Number of the queue pair.
    pub(crate) number: u32,
    pub(crate) first_packet: u32,
    /// Address of the port.
    pub(crate) gid: [u8; 16],
    /// Local identifier of the port.
    pub(crate) lid: u16,
    /// The link layer of the port, in the library's code.
    pub(crate) link_layer: u8,
    /// The largest packet, coded.
    pub(crate) mtu: u32,
    /// The address of the lane's memory. The ring is at its beginning.
    pub(crate) ring_addr: u64,
    /// The key to the rings.
    pub(crate) ring_rkey: u32,
}

impl Offer {
    /// The encoded offer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Infallible: integers, into a growing vector.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Decodes the offer of the other side.
    ///
    /// # Errors
    /// The fault of the offer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Offer, &'static str> {
        let (offer, rest) =
            postcard::take_from_bytes::<Offer>(bytes).map_err(|_| "it cannot be decoded")?;
        match () {
            () if !rest.is_empty() => Err("bytes follow it"),
            () if offer.version != LANE_VERSION => Err("it is of another version of the lanes"),
            () if offer.ring_bytes != RING_BYTES => Err("its ring has another length"),
            () if offer.first_packet > MAX_PACKET_NUMBER => Err("its packet number is too large"),
            () if !(1..=5).contains(&offer.mtu) => Err("its MTU does not exist"),
            () if offer.ring_addr.checked_add(REGION_BYTES as u64).is_none() => {
                Err("the address of its ring is too large")
            }
            () => Ok(offer),
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            number: self.number,
            first_packet: self.first_packet,
            gid: Gid { raw: self.gid },
            lid: self.lid,
        }
    }

    /// The place `at` of the ring.
    pub(crate) fn ring(&self, at: usize) -> RemoteAddr {
        RemoteAddr { addr: self.ring_addr + at as u64, rkey: self.ring_rkey }
    }

    /// The slot of the message with this number.
    #[inline]
    pub(crate) fn slot(&self, number: u64) -> RemoteAddr {
        self.ring(slot::place(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer() -> Offer {
        Offer {
            version: LANE_VERSION,
            ring_bytes: RING_BYTES,
            number: 17,
            first_packet: MAX_PACKET_NUMBER,
            gid: [9; 16],
            lid: 3,
            link_layer: 2,
            mtu: 3,
            ring_addr: 1 << 40,
            ring_rkey: 77,
        }
    }

    #[test]
    fn an_offer_survives_the_wire_and_a_wrong_one_does_not() {
        assert_eq!(Offer::decode(&offer().encode()), Ok(offer()));
        let changed = |change: fn(&mut Offer)| {
            let mut offer = offer();
            change(&mut offer);
            Offer::decode(&offer.encode()).is_err()
        };
        assert!(changed(|offer| offer.version += 1));
        assert!(changed(|offer| offer.ring_bytes *= 2));
        assert!(changed(|offer| offer.first_packet += 1));
        assert!(changed(|offer| offer.mtu = 6));
        assert!(changed(|offer| offer.ring_addr = u64::MAX));
        let mut long = offer().encode();
        long.push(0);
        assert!(Offer::decode(&long).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Offer::decode(&bytes);
        }
    }
}
