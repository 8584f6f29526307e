//! The server side of PMI-1 for one node of one job: a pure state machine.
//!
//! Its inputs are lines of local ranks, its outputs are [`Output`]s. The server owns no descriptor
//! and knows no other node. When all local ranks are in the barrier, it passes their puts to the
//! caller ([`Output::FenceReady`]). The caller exchanges them with the job's other nodes and
//! returns the union with [`NodeServer::fence_done`]. Spawn and the name service are refused with a
//! reason: a table on one node would give wrong answers on the others.

use super::wire::{
    KEYLEN_MAX_BYTES, KVSNAME_MAX_BYTES, NameResultKind, PROCESS_MAPPING_KEY, Request, Response,
    VALLEN_MAX_BYTES, WireError,
};
use crate::rank::Rank;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thiserror::Error;

/// Limit of values that a rank may put between two barriers. Clients put only a few.
pub const MAX_PUTS_PER_RANK: usize = 4096;
/// Limit of bytes of keys and values that a node keeps for a job: several times the cards of 10,000
/// ranks.
pub const MAX_KEPT_BYTES: usize = 16 << 20;
/// Limit of lines of one spawn command.
pub const MAX_SPAWN_LINES: usize = 1024;

/// Facts about the job that the server is made with.
#[derive(Clone, Debug)]
pub struct NodeServerConfig {
    /// Name of the job's key-value space.
    pub kvsname: String,
    /// Number of ranks in the whole job.
    pub size: u32,
    /// Number of processes that the allocation could hold; the job's size when nothing more is
    /// known.
    pub universe_size: u32,
    /// Number of the executable within the job.
    pub appnum: u32,
    /// The ranks on this node.
    pub local_ranks: Vec<Rank>,
    /// Value of `PMI_process_mapping`, as [`super::ProcessMapping`] formats it. A mapping longer
    /// than PMI values may be is hidden from the ranks, which then ask each other.
    pub process_mapping: String,
}

/// Actions for the caller, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this line, which lacks its newline, to a local rank.
    Reply {
        /// The receiver.
        rank: Rank,
        /// The line.
        line: String,
    },
    /// All local ranks are in the barrier. The caller must exchange these puts (those since the
    /// last fence) with the job's other nodes, then call [`NodeServer::fence_done`].
    FenceReady {
        /// Keys and values put by this node's ranks.
        puts: Vec<(String, String)>,
    },
    /// A rank asks for the end of the whole job.
    Abort {
        /// The rank that asked.
        rank: Rank,
        /// Exit code for the job.
        exit_code: i32,
    },
    /// A rank broke the protocol and can expect no answer. The caller must close its descriptor and
    /// treat the rank as failed.
    Violation {
        /// The rank.
        rank: Rank,
        /// The broken rule.
        error: RequestError,
    },
}

/// How a rank broke the protocol.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The line is not a PMI-1 request.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The rank is not on this node.
    #[error("rank {rank} is not on this node")]
    NotLocal {
        /// The rank.
        rank: Rank,
    },
    /// A request came while an earlier one waits for its answer.
    #[error("rank {rank} sent a request from inside a barrier")]
    InBarrier {
        /// The rank.
        rank: Rank,
    },
    /// A request after `finalize` is not `init`.
    #[error("rank {rank} sent a request after finalize")]
    AfterFinalize {
        /// The rank.
        rank: Rank,
    },
    /// A request came from a rank that has ended, or that broke the protocol before.
    #[error("rank {rank} is no longer served")]
    Gone {
        /// The rank.
        rank: Rank,
    },
    /// A spawn command has more than [`MAX_SPAWN_LINES`] lines.
    #[error("rank {rank} sent a spawn command of more than {MAX_SPAWN_LINES} lines")]
    SpawnTooLong {
        /// The rank.
        rank: Rank,
    },
}

/// The state of a local rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankState {
    Serving,
    InBarrier,
    /// The rank is inside `mcmd=spawn`: number of lines so far, and of processes asked for so far.
    Spawning {
        lines: usize,
        processes: usize,
    },
    /// The rank has sent `finalize`. It may send `init` again, because a rank may be a script of
    /// several programs.
    Finalized,
    /// The rank ended after `finalize`.
    Ended,
    /// The rank ended without `finalize`, or broke the protocol.
    Gone,
}

/// The per-node PMI server of one job.
#[derive(Debug)]
pub struct NodeServer {
    config: NodeServerConfig,
    ranks: BTreeMap<Rank, RankState>,
    /// Values visible to `get`: the values of all finished fences and, at once, this node's own.
    values: HashMap<String, String>,
    /// This node's puts since the last fence.
    staged: Vec<(String, String)>,
    /// Number of staged puts by rank.
    puts: HashMap<Rank, usize>,
    /// Bytes of the keys and values in `values`.
    kept_bytes: usize,
    /// Some rank has sent a line.
    spoken: bool,
    /// Ranks whose `init` was answered with success.
    joined: BTreeSet<Rank>,
    /// The first violation of each rank that broke the protocol.
    violations: BTreeMap<Rank, RequestError>,
}

impl NodeServer {
    /// The server of one node, before any rank has sent a line.
    pub fn new(config: NodeServerConfig) -> Self {
        let ranks = config.local_ranks.iter().map(|&r| (r, RankState::Serving)).collect();
        let mapping = (PROCESS_MAPPING_KEY.to_owned(), config.process_mapping.clone());
        let fits = |(_, value): &(String, String)| value.len() <= VALLEN_MAX_BYTES;
        let values = Some(mapping).filter(fits).into_iter().collect();
        NodeServer {
            config,
            ranks,
            values,
            staged: Vec::new(),
            puts: HashMap::new(),
            kept_bytes: 0,
            spoken: false,
            joined: BTreeSet::new(),
            violations: BTreeMap::new(),
        }
    }

    /// Takes one line of a local rank, with or without its newline.
    pub fn request(&mut self, rank: Rank, line: &str) -> Vec<Output> {
        match self.accept(rank, line) {
            Ok(outputs) => outputs,
            Err(error) => {
                self.rank_ended(rank);
                // Lines sent before the connection was closed are not further violations.
                if self.violations.contains_key(&rank) {
                    return Vec::new();
                }
                self.violations.insert(rank, error.clone());
                vec![Output::Violation { rank, error }]
            }
        }
    }

    /// Ends a fence and releases the local ranks from their barrier. `merged` holds the puts of all
    /// nodes, including this node's. Pairs that no rank can have put are left out, because they
    /// would break a line.
    pub fn fence_done(&mut self, mut merged: Vec<(String, String)>) -> Vec<Output> {
        merged.retain(|(key, value)| is_pair(key, value));
        for (key, value) in merged {
            self.keep(key, value);
        }
        let mut outputs = Vec::new();
        for (&rank, state) in &mut self.ranks {
            if *state == RankState::InBarrier {
                *state = RankState::Serving;
                outputs.push(reply(rank, &Response::BarrierOut));
            }
        }
        outputs
    }

    /// Whether the rank has sent `finalize`. A rank that exits without it has failed.
    pub fn finalized(&self, rank: Rank) -> bool {
        matches!(self.ranks.get(&rank), Some(RankState::Finalized | RankState::Ended))
    }

    /// Whether the rank has sent `init` and not `finalize`. If its process ends in this state,
    /// others may wait for its messages for ever.
    pub fn is_among_peers(&self, rank: Rank) -> bool {
        self.joined.contains(&rank) && !self.finalized(rank)
    }

    /// Records that the rank's process has ended.
    pub fn rank_ended(&mut self, rank: Rank) {
        let Some(state) = self.ranks.get_mut(&rank) else { return };
        *state = match *state {
            RankState::Finalized | RankState::Ended => RankState::Ended,
            RankState::Serving
            | RankState::InBarrier
            | RankState::Spawning { .. }
            | RankState::Gone => RankState::Gone,
        };
    }

    /// A rank that ended without `finalize` or broke the protocol, if any rank of this node speaks
    /// PMI. No barrier of the job can open any more.
    pub fn gone(&self) -> Option<Rank> {
        let gone = self.ranks.iter().find(|(_, state)| **state == RankState::Gone);
        gone.filter(|_| self.spoken).map(|(&rank, _)| rank)
    }

    /// The rank's violation of the protocol, if any.
    pub fn violation(&self, rank: Rank) -> Option<&RequestError> {
        self.violations.get(&rank)
    }

    /// A rank that ended after `finalize`, as all ranks do in the end. A rank that waits in a
    /// barrier now waits in vain, because the job's ranks left the previous barrier together.
    pub fn ended(&self) -> Option<Rank> {
        let ended = self.ranks.iter().find(|(_, state)| **state == RankState::Ended);
        ended.map(|(&rank, _)| rank)
    }

    /// A rank of this node that waits in a barrier.
    pub fn waiting(&self) -> Option<Rank> {
        let waits = |(_, state): &(&Rank, &RankState)| **state == RankState::InBarrier;
        self.ranks.iter().find(waits).map(|(&rank, _)| rank)
    }

    fn accept(&mut self, rank: Rank, line: &str) -> Result<Vec<Output>, RequestError> {
        self.spoken = true;
        match *self.ranks.get(&rank).ok_or(RequestError::NotLocal { rank })? {
            RankState::Serving => self.serve(rank, Request::parse(line)?),
            RankState::InBarrier => match Request::parse(line)? {
                Request::Abort { exit_code } => Ok(vec![Output::Abort { rank, exit_code }]),
                _ => Err(RequestError::InBarrier { rank }),
            },
            RankState::Spawning { lines, processes } => {
                self.spawn_line(rank, line, lines, processes)
            }
            RankState::Finalized => match Request::parse(line)? {
                init @ Request::Init { .. } => {
                    self.ranks.insert(rank, RankState::Serving);
                    self.serve(rank, init)
                }
                _ => Err(RequestError::AfterFinalize { rank }),
            },
            RankState::Ended => Err(RequestError::AfterFinalize { rank }),
            RankState::Gone => Err(RequestError::Gone { rank }),
        }
    }

    fn serve(&mut self, rank: Rank, request: Request) -> Result<Vec<Output>, RequestError> {
        let response = match request {
            Request::Init { version, .. } => self.init(rank, version),
            Request::GetMaxes => Response::Maxes {
                kvsname_max: KVSNAME_MAX_BYTES,
                keylen_max: KEYLEN_MAX_BYTES,
                vallen_max: VALLEN_MAX_BYTES,
            },
            Request::GetAppnum => Response::Appnum { appnum: self.config.appnum },
            Request::GetMyKvsname => Response::MyKvsname { kvsname: self.config.kvsname.clone() },
            Request::Get { kvsname, key } => self.get(&kvsname, &key),
            Request::Put { kvsname, key, value } => self.put(rank, &kvsname, key, value),
            Request::GetUniverseSize => Response::UniverseSize { size: self.config.universe_size },
            Request::PublishName { .. } => refuse_name(NameResultKind::Publish),
            Request::LookupName { .. } => refuse_name(NameResultKind::Lookup),
            Request::UnpublishName { .. } => refuse_name(NameResultKind::Unpublish),
            Request::BarrierIn => return Ok(self.barrier_in(rank)),
            Request::Abort { exit_code } => return Ok(vec![Output::Abort { rank, exit_code }]),
            Request::SpawnBegin => {
                self.ranks.insert(rank, RankState::Spawning { lines: 0, processes: 0 });
                return Ok(Vec::new());
            }
            Request::Finalize => {
                self.ranks.insert(rank, RankState::Finalized);
                Response::FinalizeAck
            }
        };
        Ok(vec![reply(rank, &response)])
    }

    fn init(&mut self, rank: Rank, version: u32) -> Response {
        let served = version == 1;
        if served {
            self.joined.insert(rank);
        }
        Response::ResponseToInit { version: 1, subversion: 1, rc: if served { 0 } else { -1 } }
    }

    fn get(&self, kvsname: &str, key: &str) -> Response {
        let known = (kvsname == self.config.kvsname).then(|| self.values.get(key)).flatten();
        match known {
            Some(value) => {
                Response::GetResult { rc: 0, msg: "success".to_owned(), value: value.clone() }
            }
            None => Response::GetResult {
                rc: -1,
                msg: format!("key_{key}_not_found"),
                value: "unknown".to_owned(),
            },
        }
    }

    fn put(&mut self, rank: Rank, kvsname: &str, key: String, value: String) -> Response {
        let bytes_of = |value: &String| key.len() + value.len();
        let replaced = self.values.get(&key).map_or(0, bytes_of);
        let kept = self.kept_bytes.saturating_sub(replaced) + bytes_of(&value);
        let refusal = if kvsname != self.config.kvsname {
            Some("kvs_not_found")
        } else if self.puts.get(&rank).is_some_and(|&puts| puts >= MAX_PUTS_PER_RANK) {
            Some("too_many_puts_before_a_barrier")
        } else if kept > MAX_KEPT_BYTES {
            Some("key_value_space_full")
        } else {
            None
        };
        if let Some(msg) = refusal {
            return Response::PutResult { rc: -1, msg: msg.to_owned() };
        }
        self.keep(key.clone(), value.clone());
        self.staged.push((key, value));
        *self.puts.entry(rank).or_default() += 1;
        Response::PutResult { rc: 0, msg: "success".to_owned() }
    }

    fn keep(&mut self, key: String, value: String) {
        let key_bytes = key.len();
        self.kept_bytes += key_bytes + value.len();
        // The mapping, which is not counted, may be replaced too.
        if let Some(former) = self.values.insert(key, value) {
            self.kept_bytes = self.kept_bytes.saturating_sub(key_bytes + former.len());
        }
    }

    fn barrier_in(&mut self, rank: Rank) -> Vec<Output> {
        self.ranks.insert(rank, RankState::InBarrier);
        if self.ranks.values().any(|&state| state != RankState::InBarrier) {
            return Vec::new();
        }
        self.puts.clear();
        vec![Output::FenceReady { puts: std::mem::take(&mut self.staged) }]
    }

    fn spawn_line(
        &mut self,
        rank: Rank,
        line: &str,
        lines: usize,
        processes: usize,
    ) -> Result<Vec<Output>, RequestError> {
        if lines >= MAX_SPAWN_LINES {
            return Err(RequestError::SpawnTooLong { rank });
        }
        if line.trim_end() == "endcmd" {
            self.ranks.insert(rank, RankState::Serving);
            let errcodes = vec![-1; processes.clamp(1, MAX_SPAWN_LINES)];
            return Ok(vec![reply(rank, &Response::SpawnResult { rc: -1, errcodes })]);
        }
        let asked = line.trim_end().strip_prefix("nprocs=").and_then(|n| n.parse().ok());
        let processes = processes.saturating_add(asked.unwrap_or(0));
        self.ranks.insert(rank, RankState::Spawning { lines: lines + 1, processes });
        Ok(Vec::new())
    }
}

/// Whether a line of PMI-1 can put this pair.
fn is_pair(key: &str, value: &str) -> bool {
    let is_text =
        |text: &str, limit_bytes| text.len() <= limit_bytes && !text.chars().any(char::is_control);
    is_text(key, KEYLEN_MAX_BYTES) && !key.contains(' ') && is_text(value, VALLEN_MAX_BYTES)
}

fn reply(rank: Rank, response: &Response) -> Output {
    Output::Reply { rank, line: response.to_string() }
}

fn refuse_name(kind: NameResultKind) -> Response {
    Response::NameResult { kind, rc: -1, msg: "name_service_not_offered".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_another_node_cannot_break_a_line() {
        let mut server = NodeServer::new(NodeServerConfig {
            kvsname: "kvs".to_owned(),
            size: 2,
            universe_size: 2,
            appnum: 0,
            local_ranks: vec![Rank(0)],
            process_mapping: String::new(),
        });
        let pairs = ["x\ncmd=barrier_out", &"x".repeat(VALLEN_MAX_BYTES + 1), "[x] = y"];
        let pairs = ["a", "b", "c"].into_iter().zip(pairs);
        server.fence_done(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        let mut value_of = |key: &str| {
            let outputs = server.request(Rank(0), &format!("cmd=get kvsname=kvs key={key}"));
            let [Output::Reply { line, .. }] = &outputs[..] else { panic!("{outputs:?}") };
            match Response::parse(line) {
                Ok(Response::GetResult { rc: 0, value, .. }) => Some(value),
                Ok(Response::GetResult { .. }) => None,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(value_of("a"), None);
        assert_eq!(value_of("b"), None);
        assert_eq!(value_of("c").as_deref(), Some("[x] = y"));
    }
}
