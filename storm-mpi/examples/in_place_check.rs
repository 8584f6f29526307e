//! One rank of the checks of long messages inside a node: `in_place_check CASE` under any PMI-1
//! launcher.
//!
//! `CHECK_READV` decides the fate of its calls of `process_vm_readv`: `refused`, as by a
//! container's filter, or `fatal`, which shows whether there are any. Every case asserts.

use memmap2::MmapMut;
use nix::libc;
use nix::sys::signal::{self, Signal};
use storm_mpi::{
    Address, CommError, Context, OnError, Process, Rank, SendMode, Tag, World, testing::SplitMix64,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::var("CHECK_READV").as_deref() {
        Ok("refused") => filter(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)?,
        Ok("fatal") => filter(libc::SECCOMP_RET_KILL_PROCESS)?,
        _ => {}
    }
    match std::env::args().nth(1).as_deref() {
        Some("sizes") => sizes()?,
        Some("lost") => lost()?,
        Some("unmapped") => unmapped()?,
        other => return Err(format!("no case named {other:?}").into()),
    }
    Ok(())
}

/// Sizes around the eager limit, the pieces of the rings, and the pieces of a read.
const SIZES: [usize; 12] = [
    1,
    4096,
    16 << 10,
    (16 << 10) + 1,
    (64 << 10) - 1,
    (64 << 10) + 4096,
    300_000,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    (2 << 20) + 77,
    5 << 20,
];
/// Bytes around a buffer that must stay untouched.
const MARGIN: usize = 64;

/// Pairs of ranks send each other all sizes at several alignments, into buffers that are as long,
/// longer and too short: non-blocking in both directions, and synchronously.
fn sizes() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    world.set_on_error(OnError::Return);
    let me = world.rank().0;
    let other = Rank(me ^ 1);
    for (round, bytes) in SIZES.into_iter().enumerate() {
        for (skip, room) in [(0, bytes), (1, bytes + 5), (33, bytes / 2)] {
            let data = |of: u32| pattern(u64::from(of) << 32 | (round * 100 + skip) as u64, bytes);
            let mut out = vec![0; skip + bytes];
            out[skip..].copy_from_slice(&data(me));
            let mut into = vec![0xee; skip + room + MARGIN];
            let got = world.sendrecv(
                &out[skip..],
                other,
                Tag(1),
                &mut into[skip..skip + room],
                other,
                Tag(1),
            );
            match got {
                Ok(status) => assert!(status.bytes == bytes && bytes <= room),
                Err(CommError::Truncated { sent_bytes, .. }) => assert_eq!(sent_bytes, bytes),
                Err(error) => return Err(error.into()),
            }
            let came = bytes.min(room);
            assert!(into[skip..skip + came] == data(other.0)[..came], "{bytes} at {skip}");
            let beside = into[..skip].iter().chain(&into[skip + came..]);
            assert!(beside.copied().all(|byte| byte == 0xee), "{bytes} at {skip}: beside it");
        }
    }
    for bytes in SIZES {
        let mut data = pattern(bytes as u64, bytes);
        if me.is_multiple_of(2) {
            world.ssend(&data, other, Tag(2))?;
        } else {
            let expected = std::mem::replace(&mut data, vec![0; bytes]);
            world.recv(&mut data, other, Tag(2))?;
            assert!(data == expected, "{bytes}");
        }
    }
    Ok(world.finalize()?)
}

/// The last rank announces a message and vanishes before another rank has received it.
fn lost() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    world.set_on_error(OnError::Return);
    let (last, mut into) = (Rank::from_index(world.size() - 1), vec![0u8; 1 << 20]);
    if world.rank() == last {
        let data = vec![7u8; 1 << 20];
        world.scope(|scope| {
            world.send(&[std::process::id()], Rank(0), Tag(0))?;
            // The first message is received, so that the memory is known to be readable; the second
            // is not.
            scope.isend(&data, Rank(0), Tag(1))?.wait()?;
            let _announced = scope.isend(&data, Rank(0), Tag(2))?;
            signal::raise(Signal::SIGKILL).expect("a process may kill itself");
            Ok(())
        })?;
    }
    let mut pid = [0u32];
    world.recv(&mut pid, last, Tag(0))?;
    world.recv(&mut into, last, Tag(1))?;
    while !is_over(pid[0]) {
        std::thread::yield_now();
    }
    let error = world.recv(&mut into, last, Tag(2)).expect_err("the sender is gone");
    assert!(matches!(error, CommError::PeerLost { rank, .. } if rank == last), "{error}");
    eprintln!("told: {error}");
    std::process::exit(3);
}

/// The last rank announces a message and unmaps it. It dies of its own fault when it is asked for
/// the bytes.
fn unmapped() -> Result<(), Box<dyn std::error::Error>> {
    let process = Process::join()?;
    let last = Rank::from_index(process.size() - 1);
    let context = Context(0);
    let pattern = storm_mpi::Pattern { context, source: last.into(), tag: Tag(1).into() };
    if process.rank() == last {
        let data = MmapMut::map_anon(1 << 20)?;
        let address = Address { to: Rank(0), context, tag: Tag(1) };
        // SAFETY: none, on purpose: the memory is freed while it is lent, as in a C program that
        // frees it too early. This process touches it once more, and ends there.
        let send =
            unsafe { process.start_send(address, SendMode::Standard, data.as_ptr(), data.len())? };
        drop(data);
        process.send(Address { tag: Tag(2), ..address }, SendMode::Standard, &[])?;
        process.wait(send)?;
        return Err("the message was sent".into());
    }
    // The receive must not begin before the memory is gone.
    process.recv(storm_mpi::Pattern { tag: Tag(2).into(), ..pattern }, &mut [])?;
    let received = process.recv(pattern, &mut vec![0; 1 << 20]);
    Err(format!("received {received:?}").into())
}

/// Reproducible bytes, which differ for each seed.
fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    let mut data = vec![0; bytes.next_multiple_of(8)];
    for chunk in data.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    data.truncate(bytes);
    data
}

/// Whether a process is gone, or has only its exit status left.
fn is_over(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')),
        Err(_) => true,
    }
}

/// Sets the fate of `process_vm_readv` from here on (seccomp(2)).
fn filter(action: u32) -> std::io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        // The first word of a filter's input is the number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                libc::SYS_process_vm_readv as u32,
            )
        },
        statement(libc::BPF_RET | libc::BPF_K, action),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program exists during the call, which copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
