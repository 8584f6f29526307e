//! Limits the log of refused connections to one line per address, reason and interval. Uses bounded
//! memory and no clock.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Least time between two lines about the same address and reason.
const INTERVAL: Duration = Duration::from_secs(60);
/// The most pairs of address and reason with an entry each. All others share one entry.
const MAX_PLACES: usize = 256;
/// The entry for all others.
const OTHERS: (IpAddr, &str) = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), "");

/// The last line for each address and reason.
#[derive(Debug, Default)]
pub struct RefusalLog {
    logged: BTreeMap<(IpAddr, &'static str), Logged>,
}

/// The last line for an address and reason.
#[derive(Debug)]
struct Logged {
    at: Duration,
    /// Number of refusals since the last line that were not logged.
    since: u64,
}

impl RefusalLog {
    /// Notes a refused connection. `now` is the time since some fixed moment. Returns the number of
    /// refusals since the last line if a new line is due, else `None`.
    pub fn note(&mut self, from: IpAddr, reason: &'static str, now: Duration) -> Option<u64> {
        let place = self.place((from, reason), now);
        let Some(logged) = self.logged.get_mut(&place) else {
            self.logged.insert(place, Logged { at: now, since: 0 });
            return Some(0);
        };
        if now.saturating_sub(logged.at) < INTERVAL {
            logged.since += 1;
            return None;
        }
        logged.at = now;
        Some(std::mem::take(&mut logged.since))
    }

    /// The entry to use.
    fn place(&mut self, wanted: (IpAddr, &'static str), now: Duration) -> (IpAddr, &'static str) {
        if self.logged.contains_key(&wanted) || self.logged.len() < MAX_PLACES {
            return wanted;
        }
        self.logged.retain(|_, logged| now.saturating_sub(logged.at) < INTERVAL);
        if self.logged.len() < MAX_PLACES { wanted } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn an_address_is_logged_once_per_interval_with_the_count_between() {
        let mut log = RefusalLog::default();
        let start = Duration::ZERO;
        assert_eq!(log.note(address(1), "x", start), Some(0));
        for _ in 0..999 {
            assert_eq!(log.note(address(1), "x", start + INTERVAL / 2), None);
        }
        assert_eq!(log.note(address(2), "x", start), Some(0), "another address");
        assert_eq!(log.note(address(1), "y", start), Some(0), "another reason");
        assert_eq!(log.note(address(1), "x", start + INTERVAL), Some(999));
        assert_eq!(log.note(address(1), "x", start + INTERVAL), None);
    }

    #[test]
    fn many_addresses_share_one_line() {
        let mut log = RefusalLog::default();
        let is_logged = |n: &u32| log.note(address(*n), "x", Duration::ZERO).is_some();
        assert_eq!((0..100_000).filter(is_logged).count(), MAX_PLACES + 1);
        assert!(log.logged.len() <= MAX_PLACES + 1);
        let later = Duration::ZERO + INTERVAL;
        assert_eq!(log.note(address(200_000), "x", later), Some(0), "the others are forgotten");
        assert!(log.logged.len() <= 2);
    }
}
