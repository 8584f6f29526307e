//! How often it is logged that connections are refused: once per address and
//! interval, however many there are, and with bounded memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use storm_primitives::Instant;

/// Between two lines about one address.
const INTERVAL: Duration = Duration::from_secs(60);
/// Addresses that are told apart; those beyond share one.
const MAX_ADDRESSES: usize = 256;
/// Stands for all addresses beyond.
const OTHERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// What was said of whom.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    told: BTreeMap<IpAddr, Told>,
}

/// The last line about an address.
#[derive(Debug)]
struct Told {
    at: Instant,
    /// Refusals since then that were not logged.
    since: u64,
}

impl RefusalLog {
    /// A connection from `from` is refused. When that is to be logged, how many
    /// before it were not.
    pub(super) fn note(&mut self, from: IpAddr, now: Instant) -> Option<u64> {
        let from = self.place(from, now);
        let Some(told) = self.told.get_mut(&from) else {
            self.told.insert(from, Told { at: now, since: 0 });
            return Some(0);
        };
        if now - told.at < INTERVAL {
            told.since += 1;
            return None;
        }
        told.at = now;
        Some(std::mem::take(&mut told.since))
    }

    /// Under which address it is kept.
    fn place(&mut self, from: IpAddr, now: Instant) -> IpAddr {
        if self.told.contains_key(&from) || self.told.len() < MAX_ADDRESSES {
            return from;
        }
        self.told.retain(|_, told| told.since > 0 || now - told.at < INTERVAL);
        if self.told.len() < MAX_ADDRESSES { from } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn an_address_is_told_once_per_interval_with_what_was_left_out() {
        let mut log = RefusalLog::default();
        let start = Instant::ORIGIN;
        assert_eq!(log.note(address(1), start), Some(0));
        for _ in 0..999 {
            assert_eq!(log.note(address(1), start + INTERVAL / 2), None);
        }
        assert_eq!(log.note(address(2), start), Some(0), "another address");
        assert_eq!(log.note(address(1), start + INTERVAL), Some(999));
        assert_eq!(log.note(address(1), start + INTERVAL), None);
    }

    #[test]
    fn many_addresses_share_one_line() {
        let mut log = RefusalLog::default();
        let lines = (0..100_000).filter(|&n| log.note(address(n), Instant::ORIGIN).is_some());
        assert_eq!(lines.count(), MAX_ADDRESSES + 1);
        assert!(log.told.len() <= MAX_ADDRESSES + 1);
        let later = Instant::ORIGIN + INTERVAL;
        assert_eq!(log.note(address(200_000), later), Some(0), "the others are forgotten");
        assert!(log.told.len() <= 2);
    }
}
