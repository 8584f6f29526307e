//! The offer of one end of a queue pair to the other, a fixed number of bytes. It follows the
//! greeting in which both have proved that they belong to the job.

use super::accounts::Ring;

/// Length of an offer.
pub(in crate::transport) const OFFER_BYTES: usize = 48;
/// Packet numbers have this many bits.
pub(super) const MAX_PACKET_NUMBER: u32 = (1 << 24) - 1;

/// The offer of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) struct Offer {
    /// Number of the queue pair.
    pub(super) number: u32,
    pub(super) first_packet: u32,
    /// Address of the port.
    pub(super) gid: [u8; 16],
    /// Local identifier of the port; 0 on Ethernet.
    pub(super) lid: u16,
    /// The port's link layer, as the library codes it.
    pub(super) link_layer: u8,
    /// Length of both rings, the same at both ends.
    pub(super) ring: Ring,
    /// The port's largest packet, coded (`enum ibv_mtu`).
    pub(super) mtu: u32,
    /// Address of the ring that the other end writes to.
    pub(super) ring_addr: u64,
    /// The remote key of the ring.
    pub(super) ring_rkey: u32,
}

impl Offer {
    pub(in crate::transport) fn encode(&self) -> [u8; OFFER_BYTES] {
        let mut out = [0; OFFER_BYTES];
        let parts: [&[u8]; 8] = [
            &self.number.to_le_bytes(),
            &self.first_packet.to_le_bytes(),
            &self.gid,
            &self.lid.to_le_bytes(),
            &[self.link_layer, self.ring.encode()],
            &self.mtu.to_le_bytes(),
            &self.ring_addr.to_le_bytes(),
            &self.ring_rkey.to_le_bytes(),
        ];
        let mut at = 0;
        for part in parts {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        out
    }

    /// Decodes an offer; `None` when the bytes cannot be one.
    pub(in crate::transport) fn decode(bytes: &[u8]) -> Option<Offer> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (first_packet, rest) = rest.split_first_chunk()?;
        let (gid, rest) = rest.split_first_chunk()?;
        let (lid, rest) = rest.split_first_chunk()?;
        let ([link_layer, ring], rest) = rest.split_first_chunk()?;
        let (mtu, rest) = rest.split_first_chunk()?;
        let (ring_addr, rest) = rest.split_first_chunk()?;
        let (ring_rkey, _) = rest.split_first_chunk()?;
        let ring = Ring::decode(*ring)?;
        let offer = Offer {
            number: u32::from_le_bytes(*number),
            first_packet: u32::from_le_bytes(*first_packet),
            gid: *gid,
            lid: u16::from_le_bytes(*lid),
            link_layer: *link_layer,
            ring,
            mtu: u32::from_le_bytes(*mtu),
            ring_addr: u64::from_le_bytes(*ring_addr),
            ring_rkey: u32::from_le_bytes(*ring_rkey),
        };
        let sound = bytes.len() == OFFER_BYTES
            && offer.first_packet <= MAX_PACKET_NUMBER
            && (1..=5).contains(&offer.mtu)
            && offer.ring_addr.checked_add(ring.bytes()).is_some();
        sound.then_some(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offset of the length of the rings in an offer.
    const RING_AT: usize = 27;

    fn offer() -> Offer {
        Offer {
            number: 17,
            first_packet: MAX_PACKET_NUMBER,
            gid: [9; 16],
            lid: 3,
            link_layer: 2,
            ring: Ring::of_job(2),
            mtu: 3,
            ring_addr: 1 << 40,
            ring_rkey: 77,
        }
    }

    #[test]
    fn an_offer_survives_the_wire_and_a_wrong_one_does_not() {
        assert_eq!(Offer::decode(&offer().encode()), Some(offer()));
        for wrong in [
            Offer { first_packet: MAX_PACKET_NUMBER + 1, ..offer() },
            Offer { mtu: 0, ..offer() },
            Offer { mtu: 6, ..offer() },
            Offer { ring_addr: u64::MAX, ..offer() },
        ] {
            assert_eq!(Offer::decode(&wrong.encode()), None);
        }
        assert_eq!(Offer::decode(&offer().encode()[1..]), None);
        let mut unknown = offer().encode();
        unknown[RING_AT] = 0;
        assert_eq!(Offer::decode(&unknown), None, "a ring of one byte");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Offer::decode(&bytes);
        }
    }
}
