//! Our standard input for the job, read by a thread of its own: a read from a
//! terminal cannot be taken back, and must not hold up the end.

use async_channel::Receiver;
use bytes::Bytes;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io::{IsTerminal, Read, stdin};
use std::thread;
use storm_rm::InputSpec;

/// Sent at a time: as much as an event of output holds.
const BLOCK_BYTES: usize = 32 << 10;

/// Where the input comes from.
#[derive(Debug)]
pub(super) struct Input {
    blocks: Option<Receiver<Bytes>>,
}

impl Input {
    /// Begins to read, if the job reads.
    pub(super) fn start(input: InputSpec) -> Input {
        match input {
            InputSpec::None => Input { blocks: None },
            InputSpec::RankZero | InputSpec::All => {
                // One block is sent while the next one is read.
                let (sender, receiver) = async_channel::bounded(1);
                // In the background of a terminal reading would stop us.
                if is_foreground() {
                    thread::spawn(move || read_all(&sender));
                }
                Input { blocks: Some(receiver) }
            }
        }
    }

    /// The next block, or an empty one at the end; then never again.
    pub(super) async fn next(&mut self) -> Bytes {
        let Some(blocks) = &self.blocks else { return std::future::pending().await };
        match blocks.recv().await {
            Ok(block) => block,
            Err(_) => {
                self.blocks = None;
                Bytes::new()
            }
        }
    }

    /// Nothing more is wanted.
    pub(super) fn stop(&mut self) {
        self.blocks = None;
    }
}

fn is_foreground() -> bool {
    let input = stdin();
    !input.is_terminal() || tcgetpgrp(&input).is_ok_and(|group| group == getpgrp())
}

fn read_all(sender: &async_channel::Sender<Bytes>) {
    let mut input = stdin().lock();
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // An input that fails has ended, as for any program at its place.
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if sender.send_blocking(Bytes::copy_from_slice(&buffer[..length])).is_err() {
                    return;
                }
            }
        }
    }
}
