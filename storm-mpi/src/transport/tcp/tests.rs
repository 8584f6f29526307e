//! Tests of admission and its timing, and of the connection that two ranks keep.

use super::*;
use crate::testing::SplitMix64;
use crate::transport::greeting::{
    BY_SOCKET, READY, WELCOME, greeting_bytes, hello, hello_offering, offer_behind, parse_hello,
    parse_welcome, welcome_by_rdma,
};
use crate::transport::rdma::{OFFER_BYTES, Offer};
use std::io::{Read, Write};

const LOW: Rank = Rank(1);
const HIGH: Rank = Rank(2);

/// One rank of two, as the engine drives it.
struct End {
    tcp: Tcp,
    poller: Poller,
    other: Rank,
    outbox: Vec<u8>,
    got: Vec<u8>,
}

impl End {
    fn pair() -> [End; 2] {
        [(LOW, HIGH), (HIGH, LOW)].map(|(me, other)| {
            let poller = Poller::new().unwrap();
            let host = std::net::Ipv4Addr::LOCALHOST.into();
            let mut tcp = Tcp::listen(me, host, 1, &poller).unwrap();
            tcp.set_token(Token(7));
            End { tcp, poller, other, outbox: Vec::new(), got: Vec::new() }
        })
    }

    fn dial(&mut self, at: SocketAddr) {
        self.tcp.connect(self.other, at, &self.poller).unwrap();
    }

    fn flush(&mut self) -> usize {
        let (head, payload) = self.outbox.split_at(self.outbox.len().min(32));
        let sent = self.tcp.send(self.other, [head, payload], &self.poller).unwrap();
        self.outbox.drain(..sent);
        sent
    }

    /// Polls the sockets once and handles the result.
    fn step(&mut self) -> Result<(), Lost> {
        let mut happenings = Vec::new();
        self.poller.wait(false, &mut happenings).unwrap();
        for happening in happenings {
            let news = match happening.watched {
                Watched::Listener => self.tcp.accept(&self.poller).map(|()| None).unwrap(),
                Watched::Connection(slot) => {
                    self.tcp.event(slot, happening, |rank| rank == self.other, &self.poller)?
                }
                other => panic!("{other:?}"),
            };
            if let Some(peer) = news {
                assert_eq!(peer, self.other);
                self.read()?;
                self.flush();
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Lost> {
        let peer = self.other;
        loop {
            let bytes = self.tcp.unread(peer).map_err(|error| Lost { peer, error })?;
            if bytes == 0 {
                return Ok(());
            }
            let start = self.got.len();
            self.got.resize(start + bytes, 0);
            self.tcp.copy(peer, 0, &mut self.got[start..]);
            self.tcp.advance(peer, bytes).map_err(|error| Lost { peer, error })?;
        }
    }

    fn connections(&self) -> Vec<Standing> {
        self.tcp.connections.iter().flatten().map(|connection| connection.standing).collect()
    }

    /// Whether only the one connection of the two ranks is left.
    fn is_settled(&self) -> bool {
        self.connections() == [Standing::Open(self.other)]
    }
}

/// Steps both until `done`.
fn until(ends: &mut [End; 2], mut done: impl FnMut(&[End; 2]) -> bool) {
    while !done(ends) {
        for end in ends.iter_mut() {
            end.step().unwrap();
        }
    }
}

#[test]
fn one_connection_carries_both_ways_whoever_dials() {
    for dialing in [0, 1] {
        let mut ends = End::pair();
        let answering = 1 - dialing;
        let at = ends[answering].tcp.address();
        ends[dialing].dial(at);
        ends[dialing].outbox = b"question".to_vec();
        until(&mut ends, |ends| ends[answering].got == b"question");
        assert!(ends[answering].tcp.knows(ends[answering].other), "it need not dial");
        ends[answering].outbox = b"answer".to_vec();
        assert_eq!(ends[answering].flush(), 6);
        until(&mut ends, |ends| ends[dialing].got == b"answer");
        assert!(ends.iter().all(End::is_settled));
    }
}

#[test]
fn the_lower_rank_keeps_its_connection_when_both_dial_at_once() {
    let mut ends = End::pair();
    let [low_at, high_at] = [0, 1].map(|end: usize| ends[end].tcp.address());
    ends[0].dial(high_at);
    ends[1].dial(low_at);
    for end in &mut ends {
        end.outbox = b"first".to_vec();
    }
    // The higher rank reads nothing, and bytes are sent to it all the same.
    while !ends[0].outbox.is_empty() {
        ends[0].step().unwrap();
    }
    while ends[0].connections() != [Standing::Dialed(HIGH), Standing::Yielding(HIGH)] {
        ends[0].step().unwrap();
        // The rank has sent its hello, and nothing else.
        let slot = ends[1].tcp.slot_of(LOW).unwrap();
        let happening =
            Happening { watched: Watched::Connection(slot), writable: true, readable: false };
        let news = ends[1].tcp.event(slot, happening, |_| true, &ends[1].poller).unwrap();
        assert_eq!(news, None, "it may not send");
        assert_eq!(ends[1].flush(), 0);
    }
    until(&mut ends, |ends| {
        ends.iter().all(|end| end.got == b"first" && end.outbox.is_empty() && end.is_settled())
    });
}

#[test]
fn a_rank_does_not_come_twice() {
    let mut ends = End::pair();
    let at = ends[0].tcp.address();
    ends[1].dial(at);
    until(&mut ends, |ends| ends.iter().all(End::is_settled));
    let mut again = TcpStream::connect(at).unwrap();
    again.write_all(&hello(Token(7), HIGH)).unwrap();
    again.set_nonblocking(true).unwrap();
    while !matches!(again.read(&mut [0; 8]), Ok(0)) {
        ends[0].step().unwrap();
    }
    assert!(ends[0].is_settled());
    // A rank that yields is refused a second connection, too.
    let mut ends = End::pair();
    let at = ends[1].tcp.address();
    ends[0].dial(at);
    let mut guests: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut guest = TcpStream::connect(ends[0].tcp.address()).unwrap();
            guest.write_all(&hello(Token(7), HIGH)).unwrap();
            guest.set_nonblocking(true).unwrap();
            guest
        })
        .collect();
    let mut refused = None;
    while refused.is_none() {
        ends[0].step().unwrap();
        refused = guests.iter_mut().position(|guest| matches!(guest.read(&mut [0; 8]), Ok(0)));
    }
    assert_eq!(ends[0].connections(), [Standing::Dialed(HIGH), Standing::Yielding(HIGH)]);
    guests.clear();
    until(&mut ends, |ends| ends.iter().all(End::is_settled));
}

/// Whichever rank dials when, and however their steps mix, all bytes arrive in order and one
/// connection is left.
#[test]
fn no_byte_is_lost_or_comes_early_however_two_dial() {
    for seed in 0..300 {
        let mut random = SplitMix64(seed);
        let mut ends = End::pair();
        let at = [ends[1].tcp.address(), ends[0].tcp.address()];
        let streams: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                let bytes = [0, 1, 100, 3000, 700_000][random.below(5)];
                (0..bytes).map(|i| ((i as u64 * (seed + 7)) >> 3) as u8).collect()
            })
            .collect();
        let mut given = [0; 2];
        let arrived = |ends: &[End; 2]| (0..2).all(|end| ends[end].got == streams[1 - end]);
        while !arrived(&ends) {
            let end = random.below(2);
            let left = streams[end].len() - given[end];
            if random.below(3) > 0 || left == 0 {
                ends[end].step().unwrap();
                continue;
            }
            let more = 1 + random.below(left.min(200_000));
            let new = &streams[end][given[end]..given[end] + more];
            ends[end].outbox.extend_from_slice(new);
            given[end] += more;
            if !ends[end].tcp.knows(ends[end].other) {
                ends[end].dial(at[end]);
            }
            ends[end].flush();
        }
        if streams.iter().any(|stream| !stream.is_empty()) {
            until(&mut ends, |ends| ends.iter().all(End::is_settled));
        }
    }
}

#[test]
fn two_that_write_until_nothing_fits_read_on() {
    const BYTES: usize = 32 << 20;
    let mut ends = End::pair();
    let at = ends[0].tcp.address();
    ends[1].dial(at);
    until(&mut ends, |ends| ends.iter().all(End::is_settled));
    for (end, byte) in ends.iter_mut().zip([1, 2]) {
        end.outbox = vec![byte; BYTES];
        while end.flush() > 0 {}
        assert!(!end.outbox.is_empty(), "the kernel takes less");
    }
    until(&mut ends, |ends| ends.iter().all(|end| end.got.len() == BYTES));
    for (end, byte) in ends.iter().zip([2, 1]) {
        assert!(end.got.iter().all(|&got| got == byte));
    }
}

#[test]
fn data_sent_before_an_end_arrives_before_the_end() {
    let mut ends = End::pair();
    let at = ends[0].tcp.address();
    ends[1].dial(at);
    until(&mut ends, |ends| ends.iter().all(End::is_settled));
    let [mut stays, mut leaves] = ends;
    leaves.outbox = b"last words".to_vec();
    leaves.flush();
    drop(leaves);
    let lost = loop {
        if let Err(lost) = stays.step() {
            break lost;
        }
    };
    assert_eq!((lost.peer, lost.error.kind()), (HIGH, io::ErrorKind::ConnectionReset));
    assert_eq!(stays.got, b"last words");
}

#[test]
fn a_peer_that_leaves_before_its_answer_is_lost() {
    for dialing in [0, 1] {
        let mut ends = End::pair();
        let at = ends[1 - dialing].tcp.address();
        ends[dialing].dial(at);
        for _ in 0..3 {
            ends[dialing].step().unwrap();
        }
        let [low, high] = ends;
        let (mut stays, leaves) = if dialing == 0 { (low, high) } else { (high, low) };
        drop(leaves);
        let lost = loop {
            if let Err(lost) = stays.step() {
                break lost;
            }
        };
        assert_eq!(lost.peer, stays.other);
    }
}

#[test]
fn a_process_with_a_foreign_answer_is_not_of_the_job() {
    let [mut low, _] = End::pair();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    low.dial(other.local_addr().unwrap());
    let (mut stream, _) = other.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
    let lost = loop {
        if let Err(lost) = low.step() {
            break lost;
        }
    };
    assert!(lost.error.to_string().contains("not of this job"), "{}", lost.error);
}

/// Handles the events of `count` arrivals and returns the ranks they are from; ends when all have
/// been judged.
fn judge(tcp: &mut Tcp, poller: &Poller, count: usize) -> Vec<Rank> {
    let mut admitted = Vec::new();
    let mut accepted = 0;
    while accepted < count || !tcp.strangers.is_empty() {
        let mut happenings = Vec::new();
        poller.wait(true, &mut happenings).unwrap();
        for happening in happenings {
            match happening.watched {
                Watched::Listener => {
                    let before = tcp.strangers.len();
                    tcp.accept(poller).unwrap();
                    accepted += tcp.strangers.len() - before;
                }
                Watched::Connection(slot) => {
                    let news = tcp.event(slot, happening, |rank| rank == Rank(1), poller).unwrap();
                    admitted.extend(news.filter(|rank| !admitted.contains(rank)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    admitted
}

/// Set when the test is the process that runs out of descriptors. Other tests in the process would
/// notice.
const ALONE: &str = "STORM_TEST_WITHOUT_DESCRIPTORS";

#[test]
fn a_connection_without_descriptors_waits_and_no_rank_spins() {
    if std::env::var_os(ALONE).is_none() {
        let name =
            "transport::tcp::tests::a_connection_without_descriptors_waits_and_no_rank_spins";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let poller = Poller::new().unwrap();
    let host = std::net::Ipv4Addr::LOCALHOST.into();
    let mut tcp = Tcp::listen(Rank(0), host, 1, &poller).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 64.min(hard), hard).unwrap();
    let guest = TcpStream::connect(tcp.address()).unwrap();
    let mut all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    tcp.accept(&poller).unwrap();
    assert!(tcp.strangers.is_empty() && tcp.is_deaf(), "there was a descriptor for it");
    let mut happenings = Vec::new();
    poller.wait(false, &mut happenings).unwrap();
    assert!(happenings.is_empty(), "who sleeps would be woken at once: {happenings:?}");
    all.pop();
    tcp.accept(&poller).unwrap();
    assert_eq!(tcp.strangers.len(), 1);
    all.pop();
    tcp.accept(&poller).unwrap();
    assert!(!tcp.is_deaf());
    let second = TcpStream::connect(tcp.address()).unwrap();
    poller.wait(true, &mut happenings).unwrap();
    assert!(matches!(happenings[..], [Happening { watched: Watched::Listener, .. }]));
    drop((guest, second));
}

/// No event tells that there is a watch again.
#[test]
fn a_connection_set_aside_is_admitted_without_another_one() {
    let poller = Poller::new().unwrap();
    let host = std::net::Ipv4Addr::LOCALHOST.into();
    let mut tcp = Tcp::listen(Rank(0), host, 1, &poller).unwrap();
    let guest = TcpStream::connect(tcp.address()).unwrap();
    let mut happenings = Vec::new();
    poller.wait(true, &mut happenings).unwrap();
    tcp.aside = Some(tcp.listener.accept().unwrap().0);
    tcp.set_deaf(true, &poller).unwrap();
    tcp.accept(&poller).unwrap();
    assert!(tcp.strangers.len() == 1 && tcp.aside.is_none() && !tcp.is_deaf());
    drop(guest);
}

/// Two ranks are among the first peers, with hellos that were read partly or not at all. Then more
/// unknown peers connect than there is room for, before any hello is read.
#[test]
fn strangers_do_not_drive_out_a_rank_whose_hello_was_not_read() {
    let poller = Poller::new().unwrap();
    let host = std::net::Ipv4Addr::LOCALHOST.into();
    let mut tcp = Tcp::listen(Rank(0), host, 2, &poller).unwrap();
    tcp.set_token(Token(7));
    let (address, room) = (tcp.address(), tcp.max_strangers);
    let says = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let is_dropped = |mut stream: &TcpStream| match stream.read(&mut [0; 8]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    };
    let hello_in_parts = hello(Token(7), Rank(2));
    let mut in_parts = says(&hello_in_parts[..5]);
    let mut happenings = Vec::new();
    while !matches!(happenings[..], [Happening { watched: Watched::Connection(_), .. }]) {
        tcp.accept(&poller).unwrap();
        poller.wait(true, &mut happenings).unwrap();
    }
    assert_eq!(tcp.hear_stranger(tcp.strangers[0], |_| true, &poller).unwrap(), None);
    in_parts.write_all(&hello_in_parts[5..]).unwrap();
    let at_once = says(&hello(Token(7), Rank(1)));
    let wrong = hello(Token(8), Rank(1));
    let flood: Vec<_> = (0..2 * room).map(|i| says(&wrong[..[0, 5, 32][i % 3]])).collect();
    let (dropped, kept) = flood.split_at(flood.len() + 2 - room);
    while !is_dropped(&dropped[dropped.len() - 1]) {
        tcp.accept(&poller).unwrap();
        assert!(tcp.strangers.len() <= room);
        assert!(![&in_parts, &at_once].into_iter().any(is_dropped), "a rank is driven out");
    }
    assert!(dropped.iter().all(is_dropped) && !kept.iter().any(is_dropped), "the oldest go first");
    let mut admitted = Vec::new();
    while admitted.len() < 2 {
        poller.wait(true, &mut happenings).unwrap();
        for &happening in &happenings {
            let Watched::Connection(slot) = happening.watched else { continue };
            admitted.extend(tcp.event(slot, happening, |_| true, &poller).unwrap());
        }
    }
    admitted.sort_unstable_by_key(|rank| rank.0);
    assert_eq!(admitted, [Rank(1), Rank(2)]);
    drop((in_parts, at_once));
}

#[test]
fn only_the_jobs_ranks_are_admitted() {
    let poller = Poller::new().unwrap();
    let host = std::net::Ipv4Addr::LOCALHOST.into();
    let mut tcp = Tcp::listen(Rank(0), host, 1, &poller).unwrap();
    tcp.set_token(Token(7));
    let connect = |bytes: Vec<u8>| {
        let mut stream = TcpStream::connect(tcp.address()).unwrap();
        stream.write_all(&bytes).unwrap();
        stream
    };
    let says = |token, rank| hello(Token(token), Rank(rank)).to_vec();
    let hostile = [vec![0; 64], says(8, 1), says(7, 2)].map(connect);
    let silent = connect(Vec::new());
    drop(silent);
    let friend = connect([says(7, 1), b"frame".to_vec()].concat());
    assert_eq!(judge(&mut tcp, &poller, 5), [Rank(1)]);
    for mut stranger in hostile {
        assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)), "dropped");
    }
    assert_eq!(tcp.unread(Rank(1)).unwrap(), 5);
    let mut bytes = [0; 3];
    tcp.copy(Rank(1), 2, &mut bytes);
    assert_eq!(&bytes, b"ame");
    tcp.advance(Rank(1), 5).unwrap();
    assert!(!tcp.look_at(Rank(1)), "nothing more");
    assert_eq!(tcp.unread(Rank(1)).unwrap(), 0);
    drop(friend);
    while !tcp.look_at(Rank(1)) {
        std::thread::yield_now();
    }
    let end = tcp.unread(Rank(1)).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}

/// Some valid offer: only the MTU has to be valid.
fn some_offer() -> Offer {
    let mut bytes = [0; OFFER_BYTES];
    // The rings have 256 KiB, the packets 1 KiB.
    (bytes[27], bytes[28]) = (18, 3);
    Offer::decode(&bytes).expect("an offer")
}

#[test]
fn an_offer_to_a_rank_without_an_adapter_is_refused() {
    let poller = Poller::new().unwrap();
    let host = std::net::Ipv4Addr::LOCALHOST.into();
    let mut tcp = Tcp::listen(Rank(0), host, 2, &poller).unwrap();
    tcp.set_token(Token(7));
    let offering = |rank| hello_offering(Token(7), Rank(rank), &some_offer());
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(tcp.address()).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let mut nonsense = offering(2);
    nonsense[HELLO_BYTES + 28] = 9;
    let mut stranger = connect(&nonsense);
    let mut friend = connect(&[&offering(1)[..], b"frame"].concat());
    assert_eq!(judge(&mut tcp, &poller, 2), [Rank(1)]);
    assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)), "its offer makes no sense");
    let mut answer = [0; WELCOME.len()];
    friend.read_exact(&mut answer).unwrap();
    assert_eq!(answer, WELCOME);
    assert_eq!(tcp.unread(Rank(1)).unwrap(), 5, "its bytes come by the socket");
}

#[test]
fn a_greeting_with_an_offer_is_as_long_as_it_says() {
    let offer = some_offer();
    let offering = hello_offering(Token(7), Rank(3), &offer);
    assert_eq!(greeting_bytes(HELLO_BYTES, &offering[..8]), offering.len());
    assert_eq!(parse_hello(&offering[..HELLO_BYTES], Token(7)), Some(Rank(3)));
    assert_eq!(parse_hello(&offering[..HELLO_BYTES], Token(8)), None);
    assert_eq!(offer_behind(HELLO_BYTES, &offering), Ok(Some(offer)));
    let plain = hello(Token(7), Rank(3));
    assert_eq!(greeting_bytes(HELLO_BYTES, &plain), HELLO_BYTES);
    assert_eq!(offer_behind(HELLO_BYTES, &plain), Ok(None));
    assert_eq!(parse_welcome(&WELCOME), Some(None));
    let by_rdma = welcome_by_rdma(&offer);
    assert_eq!(greeting_bytes(WELCOME.len(), &by_rdma), by_rdma.len());
    assert_eq!(parse_welcome(&by_rdma), Some(Some(offer)));
    assert_eq!(parse_welcome(&by_rdma[..by_rdma.len() - 1]), None);
    assert_eq!(parse_welcome(b"STORMOK3"), None);
}

/// A rank on the device of this machine, with an offer of a half that is gone, so that writes to it
/// are never acknowledged. With `only`, bytes use the device or fail. `None`, with the reason
/// printed, if there is no device.
fn on_a_device(only: bool) -> Option<(End, Offer)> {
    let adapter = match Adapter::open(None, std::net::Ipv4Addr::LOCALHOST.into(), 2) {
        Ok(adapter) => adapter,
        Err(why) => {
            eprintln!("NOT TESTED: {why} (`.ci/verbs` has a machine with one)");
            return None;
        }
    };
    let offer = adapter.offer(&adapter.pair(0).unwrap());
    let [_, mut end] = End::pair();
    end.tcp.use_adapter(adapter, only, &end.poller).unwrap();
    Some((end, offer))
}

/// Dials with this offer and gets an answer to it.
fn dialed_offering(end: &mut End, offer: &Offer) -> TcpStream {
    let mut dialer = TcpStream::connect(end.tcp.address()).unwrap();
    dialer.write_all(&hello_offering(Token(7), end.other, offer)).unwrap();
    while !end.is_settled() {
        end.step().unwrap();
    }
    let mut answer = [0; WELCOME.len() + OFFER_BYTES];
    dialer.read_exact(&mut answer).unwrap();
    assert!(matches!(parse_welcome(&answer), Some(Some(_))), "{answer:?}");
    dialer
}

#[test]
fn a_request_that_fails_while_its_rank_sleeps_is_found() {
    let Some((mut end, offer)) = on_a_device(true) else { return };
    let mut dialer = dialed_offering(&mut end, &offer);
    dialer.write_all(&[READY]).unwrap();
    end.outbox = b"nobody acknowledges this".to_vec();
    while !end.outbox.is_empty() {
        end.step().unwrap();
        end.flush();
    }
    let mut happenings = Vec::new();
    let lost = loop {
        end.poller.wait_for(end.tcp.longest_sleep().unwrap(), &mut happenings).unwrap();
        while let Some(name) = end.tcp.next_of_adapter().unwrap() {
            let _ = end.tcp.hear_adapter(name);
        }
        if let Err(lost) = end.tcp.look_at_requests(|_| ()) {
            break lost;
        }
    };
    assert_eq!(lost.peer, end.other);
    assert!(lost.error.to_string().contains("RDMA"), "{}", lost.error);
}

#[test]
fn a_rank_that_cannot_use_the_answer_takes_the_socket_or_fails() {
    for only in [false, true] {
        let Some((mut end, offer)) = on_a_device(only) else { return };
        let mut dialer = dialed_offering(&mut end, &offer);
        dialer.write_all(&[BY_SOCKET]).unwrap();
        dialer.write_all(b"by the socket").unwrap();
        let outcome = loop {
            match end.step() {
                Ok(()) if end.got == b"by the socket" => break Ok(()),
                Ok(()) => {}
                Err(lost) => break Err(lost),
            }
        };
        assert_eq!(outcome.is_err(), only, "{outcome:?}");
    }
}
