//! Who is admitted, and when.

use super::*;

#[test]
fn hello_needs_the_token() {
    let bytes = hello(Token(7), Rank(3));
    assert_eq!(bytes.len(), HELLO_BYTES);
    assert_eq!(parse_hello(&bytes, Token(7)), Some(Rank(3)));
    assert_eq!(parse_hello(&bytes, Token(8)), None);
    assert_eq!(parse_hello(&bytes[1..], Token(7)), None);
}

/// Turns the events of `count` arrivals into who they are from; ends when all have been judged.
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
                Watched::Incoming(slot) => match tcp.incoming_event(slot, |r| r == Rank(1)) {
                    Arrival::From(rank) if !admitted.contains(&rank) => admitted.push(rank),
                    _ => {}
                },
                other => panic!("{other:?}"),
            }
        }
    }
    admitted
}

/// Says that the test is the process to run out of descriptors, which others in it would notice.
const ALONE: &str = "STORM_TEST_WITHOUT_DESCRIPTORS";

#[test]
fn who_connects_while_there_are_no_descriptors_waits() {
    if std::env::var_os(ALONE).is_none() {
        let name = "transport::tcp::tests::who_connects_while_there_are_no_descriptors_waits";
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
    assert!(tcp.strangers.is_empty(), "there was a descriptor for it");
    all.pop();
    tcp.accept(&poller).unwrap();
    assert_eq!(tcp.strangers.len(), 1);
    drop(guest);
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
    let hostile = [vec![0; 64], hello(Token(8), Rank(1)), hello(Token(7), Rank(2))].map(connect);
    let silent = connect(Vec::new());
    drop(silent);
    let friend = connect([hello(Token(7), Rank(1)), b"frame".to_vec()].concat());
    assert_eq!(judge(&mut tcp, &poller, 5), [Rank(1)]);
    for mut stranger in hostile {
        assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)), "dropped");
    }
    assert_eq!(tcp.unread(Rank(1)).unwrap(), 5);
    let mut bytes = [0; 3];
    tcp.copy(Rank(1), 2, &mut bytes);
    assert_eq!(&bytes, b"ame");
    tcp.advance(Rank(1), 5);
    assert!(!tcp.look_at(Rank(1)), "nothing more");
    assert_eq!(tcp.unread(Rank(1)).unwrap(), 0);
    drop(friend);
    while !tcp.look_at(Rank(1)) {
        std::thread::yield_now();
    }
    let end = tcp.unread(Rank(1)).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}
