//! Files that several ranks write to: whole lines, complete output, as the user.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use storm_pl::{
    Credentials, Event, FileStep, FilesEnd, LaunchSpec, LineEnds, Output, PadId, PlIndex, RankSpec,
    SharedFiles, SharedFilesSpec,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::support::{self, BOTH, Mechanism, NOBODY, Node, shell};

const PAD: PadId = PadId(0);
const RANKS: u16 = 4;
const LINES: usize = 3_000;
/// Writes like C's standard output: full buffers, without regard to the ends of lines.
const BLOCKS: &str =
    "exec awk -v r=$R 'BEGIN { for (i = 0; i < 3000; i++) printf \"%d %070d\\n\", r, i }'";

/// A directory to which only its user may write, and the user.
fn directory() -> (tempfile::TempDir, Credentials) {
    let dir = tempfile::tempdir().unwrap();
    let mut user = Credentials::own();
    if user.uid == 0 {
        user = Credentials { uid: NOBODY, gid: NOBODY, groups: Vec::new() };
        std::os::unix::fs::chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    (dir, user)
}

struct Job {
    spec: LaunchSpec,
    path: PathBuf,
    files: Rc<SharedFiles>,
}

impl Job {
    fn new(script: &str, path: &Path, user: &Credentials) -> Job {
        let spec = LaunchSpec { credentials: user.clone(), umask: 0o027, ..shell(script) };
        Job { spec, path: path.into(), files: Rc::new(SharedFiles::make().unwrap()) }
    }

    /// Launches `ranks` ranks, each with its number in `R`.
    fn launch(&self, node: &Node, ranks: u16) {
        let spec = self.spec.encode().unwrap();
        for rank in 0..ranks {
            let stdout = Output::Lines { path: self.path.clone() };
            let env = vec![("R".into(), rank.to_string().into())];
            let rank_spec = RankSpec { stdout, stderr: Output::SameAsStdout, env, ..plain() };
            let launching = node.handle.launch(PAD, PlIndex(rank), &spec, &rank_spec).unwrap();
            let LineEnds { stdout, stderr } = launching.lines;
            assert!(stderr.is_none() && launching.ends.stdout.is_none());
            assert_eq!(launching.own.count(), 0, "nobody here holds the stream open");
            self.files.add(0, stdout.unwrap());
        }
        let files = SharedFilesSpec {
            credentials: self.spec.credentials.clone(),
            umask: self.spec.umask,
            file_size: self.spec.limits.first().copied(),
            files: vec![self.path.clone()],
        };
        self.files.begin(&node.handle, &files);
    }

    async fn end(&self) -> FilesEnd {
        // SAFETY: the descriptor is open as long as the value that is registered.
        let socket =
            unsafe { AsyncFd::register_with_interest(self.files.clone(), Interest::READABLE) };
        let socket = socket.unwrap();
        let end = async {
            loop {
                let mut readable = socket.readable().await.unwrap();
                if let Ok(end) = readable.try_io(|files| files.get_ref().end()) {
                    return end.unwrap();
                }
            }
        };
        tokio::time::timeout(support::HANG, end).await.expect("an end within the bound")
    }
}

fn plain() -> RankSpec {
    RankSpec { stdout: Output::Null, stderr: Output::Null, ..RankSpec::default() }
}

async fn until_exited(node: &mut Node, ranks: u16) {
    let mut exited = 0;
    while exited < ranks {
        match node.next().await {
            Event::Launched { .. } => {}
            Event::Exited { .. } => exited += 1,
            other => panic!("{other:?}"),
        }
    }
}

/// 8,308 of 24,000 lines used to be broken.
#[tokio::test]
async fn lines_of_ranks_in_one_file_are_whole_and_the_file_is_the_users() {
    for mechanism in BOTH {
        let (dir, user) = directory();
        let mut node = Node::start(mechanism, RANKS).await;
        let job = Job::new(BLOCKS, &dir.path().join("out"), &user);
        job.launch(&node, RANKS);
        until_exited(&mut node, RANKS).await;
        assert_eq!(job.end().await, FilesEnd::Written);
        assert_eq!(job.end().await, FilesEnd::Written, "also for the next who asks");
        let text = fs::read_to_string(&job.path).unwrap();
        let mut next = [0; RANKS as usize];
        for line in text.lines() {
            let (rank, number) = line.split_once(' ').expect("a whole line");
            let rank: usize = rank.parse().expect("a whole line");
            assert_eq!(number, format!("{:070}", next[rank]), "{mechanism:?} of {rank}");
            next[rank] += 1;
        }
        assert_eq!(next, [LINES; RANKS as usize]);
        let file = fs::metadata(&job.path).unwrap();
        assert_eq!((file.uid(), file.mode() & 0o777), (user.uid, 0o640));
        node.shut_down().await;
    }
}

#[tokio::test]
async fn children_of_a_rank_may_write_until_the_end_of_the_job() {
    for mechanism in BOTH {
        let (dir, user) = directory();
        let mut node = Node::start(mechanism, 1).await;
        let said = dir.path().join("said");
        let script = "(echo late; : > $SAID; exec sleep 1000) & printf unfinished; exit 0";
        let script = format!("SAID={}; {script}", said.display());
        let job = Job::new(&script, &dir.path().join("out"), &user);
        job.launch(&node, 1);
        until_exited(&mut node, 1).await;
        support::until("its child has said it", || said.exists());
        assert!(job.files.end().is_err(), "its child has the stream");
        node.handle.release(PAD).unwrap();
        assert_eq!(job.end().await, FilesEnd::Written);
        let text = fs::read_to_string(&job.path).unwrap();
        assert!(text.contains("late\n") && text.contains("unfinished"), "{text}");
        node.until_ready(PAD).await;
        node.shut_down().await;
    }
}

/// A line that the writer holds is not lost with the keeper.
#[tokio::test]
async fn pending_output_is_written_at_the_end() {
    for mechanism in BOTH {
        let (dir, user) = directory();
        let mut node = Node::start(mechanism, 1).await;
        let script =
            format!("printf 'last words'; : > {}/said; exec sleep 1000", dir.path().display());
        let job = Job::new(&script, &dir.path().join("out"), &user);
        job.launch(&node, 1);
        assert!(matches!(node.next().await, Event::Launched { .. }));
        support::until("it has said it", || dir.path().join("said").exists());
        node.shut_down().await;
        assert_eq!(job.end().await, FilesEnd::Written);
        assert_eq!(fs::read_to_string(&job.path).unwrap(), "last words");
    }
}

#[tokio::test]
async fn a_failed_write_is_reported_and_ranks_wait_for_their_end() {
    let (dir, user) = directory();
    let mut node = Node::start(Mechanism::Cgroup, 2).await;
    let mut job = Job::new("while :; do echo more; done", &dir.path().join("out"), &user);
    let resource = nix::sys::resource::Resource::RLIMIT_FSIZE as u32;
    job.spec.limits = vec![storm_pl::ResourceLimit { resource, soft: 10_000, hard: 10_000 }];
    job.launch(&node, 2);
    let FilesEnd::Failed(failure) = job.end().await else { panic!("it fits") };
    assert_eq!((failure.step, failure.file, failure.errno.0), (FileStep::Write, 0, libc::EFBIG));
    assert_eq!(fs::metadata(&job.path).unwrap().len(), 10_000);
    for _ in 0..2 {
        // No rank has ended by SIGPIPE.
        assert!(matches!(node.next().await, Event::Launched { .. }));
    }
    node.handle.destroy(PAD).unwrap();
    until_exited(&mut node, 2).await;
    node.until_ready(PAD).await;
    node.shut_down().await;
}

/// The keeper's child that writes files.
fn writer_of(keeper: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).ok()?;
    let mut children = children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap());
    children.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("storm: output")
    })
}

#[tokio::test]
async fn a_killed_writer_is_told_of() {
    for mechanism in BOTH {
        let (dir, user) = directory();
        let mut node = Node::start(mechanism, 1).await;
        let job = Job::new("exec sleep 1000", &dir.path().join("out"), &user);
        job.launch(&node, 1);
        support::until("there is a writer", || writer_of(node.pid).is_some());
        // SAFETY: kill takes two integers.
        unsafe { libc::kill(writer_of(node.pid).unwrap(), libc::SIGKILL) };
        let FilesEnd::Failed(failure) = job.end().await else { panic!("it has written") };
        assert_eq!(failure.step, FileStep::Killed);
        assert!(matches!(node.next().await, Event::Launched { .. }));
        node.shut_down().await;
    }
}

#[tokio::test]
async fn ranks_write_files_that_are_not_regular_themselves() {
    let (dir, user) = directory();
    let fifo = dir.path().join("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o666)).unwrap();
    std::os::unix::fs::chown(&fifo, Some(user.uid), Some(user.gid)).unwrap();
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let job = Job::new("echo by the rank", &fifo, &user);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        fs::File::open(fifo).and_then(|mut file| file.read_to_string(&mut text)).map(|_| text)
    });
    job.launch(&node, 1);
    until_exited(&mut node, 1).await;
    assert_eq!(job.end().await, FilesEnd::Written);
    assert_eq!(reader.join().unwrap().unwrap(), "by the rank\n");
    node.shut_down().await;
}

#[tokio::test]
async fn a_file_that_the_user_may_not_open_fails_the_launch() {
    let (dir, user) = directory();
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let job = Job::new("exit 0", &dir.path().join("absent/out"), &user);
    job.launch(&node, 1);
    let Event::LaunchFailed { failure, .. } = node.next().await else { panic!("it runs") };
    assert_eq!(failure.step, storm_pl::LaunchStep::Stdout);
    assert_eq!(job.end().await, FilesEnd::Written, "there was nothing");
    node.shut_down().await;
}

/// The user of a job used to be unable to open `/dev/stderr`: a pipe belongs to its maker.
#[tokio::test]
async fn a_rank_may_open_its_streams_by_name() {
    let (dir, user) = directory();
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let script = "echo out > /dev/stdout; echo err > /dev/stderr";
    let job = Job::new(script, &dir.path().join("out"), &user);
    job.launch(&node, 1);
    until_exited(&mut node, 1).await;
    assert_eq!(job.end().await, FilesEnd::Written);
    assert_eq!(fs::read_to_string(&job.path).unwrap(), "out\nerr\n");
    node.handle.release(PAD).unwrap();
    node.until_ready(PAD).await;
    let outcome = node.run(&job.spec, &RankSpec::default()).await;
    assert_eq!(outcome.stdout(), "out\n", "{outcome:?}");
    node.shut_down().await;
}
