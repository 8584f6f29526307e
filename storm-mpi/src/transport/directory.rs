//! Placement of the ranks, and the addresses that they publish through PMI.
//!
//! Every rank publishes one [`Card`] before the job's first barrier. A peer's card is fetched when
//! the peer is first needed.

use super::doorbell::BellName;
use super::inbox::LocalIndex;
use crate::error::{CommError, InitError};
use crate::pmi::PmiClient;
use crate::pmi::ProcessMapping;
use crate::pmi::client::PmiError;
use crate::pmi::wire::PROCESS_MAPPING_KEY;
use crate::rank::Rank;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::str::FromStr;

const TOKEN_KEY: &str = "storm-mpi-token";
/// Key that exists if several threads call the library at any rank.
const THREADS_KEY: &str = "storm-mpi-threads";

/// The job's secret. A process that knows it may connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(pub(super) u128);

/// The addresses that a rank publishes to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// Process whose descriptor `inbox_fd` is the inbox.
    pub(super) pid: u32,
    pub(super) inbox_fd: RawFd,
    /// Address of the rank's mark in its memory; 0 if no other process may read there.
    pub(super) mark: u64,
    pub(super) bell: BellName,
    /// Address where the rank listens, if the job has several nodes.
    pub(super) address: Option<SocketAddr>,
}

/// Place of a rank, seen from this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On this node.
    Here(LocalIndex),
    /// On another node.
    Elsewhere,
}

/// Placement and addresses of the job's ranks.
pub(super) struct Directory {
    pmi: Option<PmiClient>,
    me: Rank,
    places: Vec<Place>,
    local_ranks: Vec<Rank>,
    /// Whether several threads call the library at this rank.
    has_threads: bool,
    /// Whether several threads call the library at any rank, once this is known.
    job_has_threads: Option<bool>,
}

impl Directory {
    /// Joins the job that the environment names. Without a job this process is rank 0 of 1.
    pub(super) fn join(has_threads: bool) -> Result<Self, InitError> {
        let Some(mut pmi) = PmiClient::from_env()? else {
            let places = vec![Place::Here(LocalIndex(0))];
            let (me, local_ranks) = (Rank(0), vec![Rank(0)]);
            let job_has_threads = Some(has_threads);
            return Ok(Directory {
                pmi: None,
                me,
                places,
                local_ranks,
                has_threads,
                job_has_threads,
            });
        };
        let (me, size) = (pmi.rank(), pmi.size());
        if me.0 >= size {
            return Err(InitError::RankOutOfJob { rank: me, size });
        }
        // Without a mapping, every rank counts as a node of its own, which is slower but never
        // wrong.
        let local_ranks = match pmi.get(PROCESS_MAPPING_KEY)? {
            Some(text) => ProcessMapping::parse(&text)?.local_ranks(me, size as usize)?,
            None => vec![me],
        };
        let mut places = vec![Place::Elsewhere; size as usize];
        for (index, rank) in local_ranks.iter().enumerate() {
            places[rank.index()] = Place::Here(LocalIndex(index));
        }
        let job_has_threads = has_threads.then_some(true);
        Ok(Directory { pmi: Some(pmi), me, places, local_ranks, has_threads, job_has_threads })
    }

    /// Publishes this rank's card, waits for those of all others, and returns the job's token.
    pub(super) fn publish(&mut self, card: &Card) -> Result<Token, InitError> {
        let me = self.me;
        let Some(pmi) = &mut self.pmi else { return Ok(Token(0)) };
        pmi.put(&card_key(me), &card.to_string())?;
        if me == Rank(0) {
            let token = random_u128().map_err(InitError::os("reading random bytes"))?;
            pmi.put(TOKEN_KEY, &format!("{token:032x}"))?;
        }
        if self.has_threads {
            match pmi.put(THREADS_KEY, "1") {
                // Some process managers accept a key once per job, so another rank may have put it.
                // If none has, the check below detects it.
                Err(PmiError::Refused { .. }) => {}
                put => put?,
            }
        }
        pmi.barrier()?;
        if self.has_threads && pmi.get(THREADS_KEY)?.is_none() {
            return Err(InitError::Threads);
        }
        let text = pmi.get(TOKEN_KEY)?.ok_or(InitError::Token)?;
        u128::from_str_radix(&text, 16).map(Token).map_err(|_| InitError::Token)
    }

    /// Whether several threads call the library at any rank of the job. All ranks get the same
    /// answer. The process manager must not be inside a barrier.
    pub(super) fn has_threads(&mut self) -> Result<bool, CommError> {
        if let (None, Some(pmi)) = (self.job_has_threads, &mut self.pmi) {
            self.job_has_threads = Some(pmi.get(THREADS_KEY)?.is_some());
        }
        Ok(self.job_has_threads.unwrap_or(self.has_threads))
    }

    pub(super) fn card(&mut self, rank: Rank) -> Result<Card, CommError> {
        let Some(pmi) = &mut self.pmi else { return Err(CommError::NoAddress { rank }) };
        let text = pmi.get(&card_key(rank))?;
        text.and_then(|text| text.parse().ok()).ok_or(CommError::NoAddress { rank })
    }

    pub(super) fn me(&self) -> Rank {
        self.me
    }

    pub(super) fn size(&self) -> usize {
        self.places.len()
    }

    /// Place of `rank`; `None` when the job has no such rank.
    pub(super) fn place(&self, rank: Rank) -> Option<Place> {
        self.places.get(rank.index()).copied()
    }

    /// The ranks of this node, in order.
    pub(super) fn local_ranks(&self) -> &[Rank] {
        &self.local_ranks
    }

    pub(super) fn pmi(&mut self) -> Option<&mut PmiClient> {
        self.pmi.as_mut()
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2,{},{},{:x},{:032x},", self.pid, self.inbox_fd, self.mark, self.bell.0)?;
        match self.address {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("-"),
        }
    }
}

/// The text is not a card.
#[derive(Debug)]
pub(super) struct BadCard;

impl FromStr for Card {
    type Err = BadCard;

    fn from_str(text: &str) -> Result<Self, BadCard> {
        let [version, pid, fd, mark, bell, address] =
            text.split(',').collect::<Vec<_>>().try_into().map_err(|_| BadCard)?;
        if version != "2" {
            return Err(BadCard);
        }
        Ok(Card {
            pid: pid.parse().map_err(|_| BadCard)?,
            inbox_fd: fd.parse().map_err(|_| BadCard)?,
            mark: u64::from_str_radix(mark, 16).map_err(|_| BadCard)?,
            bell: BellName(u128::from_str_radix(bell, 16).map_err(|_| BadCard)?),
            address: match address {
                "-" => None,
                address => Some(address.parse().map_err(|_| BadCard)?),
            },
        })
    }
}

/// Random bytes from the kernel.
pub(super) fn random_u128() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

fn card_key(rank: Rank) -> String {
    format!("storm-mpi-card-{rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_round_trip() {
        let bell = BellName(0x1234);
        for address in
            [None, Some("127.0.0.1:80".parse().unwrap()), Some("[::1]:9".parse().unwrap())]
        {
            let card = Card { pid: 7, inbox_fd: 3, mark: 0xfe, bell, address };
            assert_eq!(card.to_string().parse::<Card>().unwrap(), card);
        }
        assert!("2,2,3".parse::<Card>().is_err());
    }
}
