//! Reads our standard input for the job, on a thread of its own, because a read from a terminal
//! cannot be cancelled and must not delay the end.
//!
//! Only the real end of the input is passed on as its end. A job that takes a part of its input for
//! the whole would end COMPLETED with a wrong result.

use super::signals::is_ignored;
use crate::standard_streams::StandardInput;
use async_channel::{Receiver, Sender};
use bytes::Bytes;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::tcgetattr;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::future::pending;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use storm_rm::InputSpec;

/// Bytes sent at a time: as much as an event of output holds.
const BLOCK_BYTES: usize = 32 << 10;
/// How often to check whether the terminal has put this process into its foreground. `fg` sends a
/// signal only to stopped processes.
const FOREGROUND_LOOK: Duration = Duration::from_millis(100);

/// The input of a job.
#[derive(Debug)]
pub(super) struct Input {
    blocks: Option<Receiver<Bytes>>,
    trouble: Option<Receiver<Trouble>>,
}

/// A piece of input, or the reason why there is no more.
#[derive(Debug)]
pub(super) enum Given {
    /// A block; an empty one is the end of the input.
    Block(Bytes),
    Trouble(Trouble),
}

/// Why there is no more input although it has not ended.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Reading failed.
    Failed(io::Error),
    /// The terminal is gone.
    HungUp,
}

impl Input {
    /// Starts to read, if the job reads.
    pub(super) fn start(input: &InputSpec) -> Input {
        match input {
            InputSpec::None | InputSpec::File(_) => Input { blocks: None, trouble: None },
            InputSpec::RankZero | InputSpec::All => {
                // One block is sent while the next one is read.
                let (sender, blocks) = async_channel::bounded(1);
                let (complain, trouble) = async_channel::bounded(1);
                thread::spawn(move || {
                    if let Err(trouble) = read_all(&sender) {
                        // If the job is over, no receiver is left.
                        let _ = complain.send_blocking(trouble);
                    }
                });
                Input { blocks: Some(blocks), trouble: Some(trouble) }
            }
        }
    }

    /// The next block or trouble; a block only if `may` is true. Nothing follows the end or
    /// trouble.
    pub(super) async fn next(&mut self, may: bool) -> Given {
        tokio::select! {
            biased;
            trouble = received(&mut self.trouble) => {
                self.stop();
                Given::Trouble(trouble)
            }
            block = received(&mut self.blocks), if may => {
                if block.is_empty() {
                    self.stop();
                }
                Given::Block(block)
            }
        }
    }

    /// Drops further input.
    pub(super) fn stop(&mut self) {
        self.blocks = None;
        self.trouble = None;
    }
}

/// The next item of a channel; never completes once the sender is gone.
async fn received<T>(channel: &mut Option<Receiver<T>>) -> T {
    let came = match channel {
        Some(open) => open.recv().await,
        None => return pending().await,
    };
    match came {
        Ok(item) => item,
        Err(_) => {
            *channel = None;
            pending().await
        }
    }
}

/// Reads to the end, and sends the end as an empty block.
fn read_all(sender: &Sender<Bytes>) -> Result<(), Trouble> {
    // `is_terminal` is false for a terminal that has hung up already.
    let is_terminal = stdin().is_terminal() || matches!(tcgetattr(stdin()), Err(Errno::EIO));
    let mut source = if is_terminal { Source::terminal() } else { Source::Other };
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let length = source.read(&mut buffer)?;
        let block = Bytes::copy_from_slice(&buffer[..length]);
        if sender.send_blocking(block).is_err() || length == 0 {
            return Ok(());
        }
    }
}

/// The kind of standard input.
enum Source {
    /// A terminal, which is read in the foreground only.
    Terminal,
    /// A file or a pipe, which may be read at any time.
    Other,
}

impl Source {
    fn terminal() -> Source {
        // Ctrl-Z and `bg` may come between a check of the foreground and the end of a read. With
        // SIGTTIN blocked, the read then fails with EIO (tty_ioctl(4)) instead of stopping us.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTIN);
        // Fails only for unknown signals.
        let _ = stop.thread_block();
        Source::Terminal
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        match self {
            Source::Other => StandardInput.read(buffer).map_err(Trouble::Failed),
            Source::Terminal => read_terminal(buffer),
        }
    }
}

fn read_terminal(buffer: &mut [u8]) -> Result<usize, Trouble> {
    let mut failed_in_foreground = false;
    loop {
        while is_in_background() {
            wait_for_look();
        }
        match StandardInput.read(buffer) {
            // When a terminal hangs up, the kernel ends its input as Ctrl-D does.
            Ok(0) if has_hung_up() => return hang_up(),
            Ok(length) => return Ok(length),
            Err(error) if error.raw_os_error() != Some(Errno::EIO as i32) => {
                return Err(Trouble::Failed(error));
            }
            Err(_) if is_in_background() => {}
            Err(_) if has_hung_up() || failed_in_foreground => return hang_up(),
            // `fg` came between the read and the check.
            Err(_) => failed_in_foreground = true,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "no event tells of the foreground, and nobody waits")]
fn wait_for_look() {
    thread::sleep(FOREGROUND_LOOK);
}

/// With SIGHUP ignored, the user wants the job to outlive the terminal, so its input just ends.
fn hang_up() -> Result<usize, Trouble> {
    if is_ignored(Signal::SIGHUP) { Ok(0) } else { Err(Trouble::HungUp) }
}

/// Whether this process is in the background. False for a terminal that is not ours, which may be
/// read.
fn is_in_background() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group != getpgrp())
}

/// Whether the other end of our terminal is gone. While it closes, reads end as at Ctrl-D although
/// the terminal still has attributes.
fn has_hung_up() -> bool {
    let input = stdin();
    let mut source = [PollFd::new(input.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    poll(&mut source, PollTimeout::ZERO).is_ok()
        && source[0].revents().is_some_and(|events| events.intersects(gone))
}
