//! `storm run` at a terminal: a shell's job control, and a terminal that goes away.

use crate::scratch::{STORM, Scratch, told};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::{Child, Command, Stdio};

/// Most milliseconds to wait for output.
const PATIENCE_MS: u16 = 60_000;

/// The user's side of a terminal.
struct Desk {
    terminal: File,
    /// Output that was not checked yet.
    unseen: String,
}

impl Desk {
    /// A terminal; the returned file is the program's side. No other process inherits our side, as
    /// it would keep the terminal from hanging up.
    fn new() -> (Desk, File) {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let name = ptsname_r(&master).expect("it has a name");
        let mut options = File::options();
        options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
        let other = options.open(name).expect("it can be opened");
        (Desk { terminal: OwnedFd::from(master).into(), unseen: String::new() }, other)
    }

    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("it is there");
    }

    /// Reads until this is printed.
    fn sees(&mut self, text: &str) {
        loop {
            if let Some(at) = self.unseen.find(text) {
                self.unseen.drain(..at + text.len());
                return;
            }
            let mut ready = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut ready, PollTimeout::from(PATIENCE_MS)).expect("it can be asked");
            assert!(ready > 0, "{text:?} does not come: {:?}", self.unseen);
            let mut some = [0; 4096];
            let length = self.terminal.read(&mut some).expect("it is there");
            self.unseen += &String::from_utf8_lossy(&some[..length]);
        }
    }
}

/// Starts a program with the terminal as its standard input, output and error.
fn at(terminal: File, command: &mut Command) -> Child {
    let stream = || Stdio::from(terminal.try_clone().expect("a descriptor"));
    command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("it starts")
}

fn cluster() -> Scratch {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 1 --pes 2");
    scratch
}

#[test]
fn a_client_in_the_background_does_not_read_and_reads_again_in_the_foreground() {
    let scratch = cluster();
    let job = scratch.work().join("job.sh");
    let script = "#!/bin/sh\necho up\nread a; echo \"[$a]\"\nwhile [ ! -e go ]; do sleep 0.02; done\n\
                  echo in-background\nread b; echo \"[$b]\"; cat; echo bye\n";
    fs::write(&job, script).expect("written");
    fs::set_permissions(&job, Permissions::from_mode(0o755)).expect("ours");
    let (mut desk, terminal) = Desk::new();
    let mut shell = scratch.command("setsid");
    shell.args(["--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"]);
    let mut shell = at(terminal, shell.env("PS1", "ready> ").env("STORM", STORM));
    desk.sees("ready> ");
    desk.types("$STORM run ./job.sh\n");
    desk.sees("up\r\n");
    desk.types("one\n");
    desk.sees("[one]");
    desk.types("\x1a");
    desk.sees("Stopped");
    desk.sees("ready> ");
    desk.types("bg\n");
    desk.sees("ready> ");
    desk.types("touch go\n");
    desk.sees("in-background");
    desk.types("jobs\n");
    desk.sees("Running");
    desk.types("fg\n");
    desk.sees("./job.sh");
    desk.types("two\n");
    desk.sees("[two]");
    desk.types("\x04");
    desk.sees("bye");
    desk.sees("ready> ");
    desk.types("exit\n");
    assert!(shell.wait().expect("it ends").success());
}

#[test]
fn a_terminal_that_hangs_up_cancels_the_job_unless_that_is_ignored() {
    let scratch = cluster();
    for (line, state, status) in [
        ("exec $STORM run sh -c 'echo up; exec cat'", "CANCELLED", 129),
        ("trap '' HUP; exec $STORM run sh -c 'echo up; exec cat'", "COMPLETED", 0),
    ] {
        let (desk, terminal) = Desk::new();
        // Without a controlling terminal there is no signal.
        let mut command = scratch.command("setsid");
        command.args(["sh", "-c", line]).env("STORM", STORM);
        command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        drop(command);
        let mut up = [0; 3];
        child.stdout.as_mut().expect("piped").read_exact(&mut up).expect("it is up");
        drop(desk);
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(done.status.code(), Some(status), "{line}: {}", told(&done));
        let jobs = scratch.json("hist --limit 1");
        assert_eq!(jobs[0]["state"], state, "{line}: {jobs}");
    }
}
