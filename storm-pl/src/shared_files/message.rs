//! The messages between an NM and the process that writes a job's shared files.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::credentials::Credentials;
use crate::ids::Errno;
use crate::launch_spec::ResourceLimit;
use crate::seqpacket::MANY_MAX;

/// The most streams in one message.
pub(crate) const STREAMS_MAX: usize = MANY_MAX;
/// The byte after the numbers of the files in the last message.
pub(crate) const LAST: u8 = u8::MAX;
/// The longest message of either side: a byte for each stream, or a [`FilesEnd`].
pub(crate) const MESSAGE_BYTES_MAX: usize = STREAMS_MAX + 1;

/// The files of a job on this node that several of its ranks write to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFilesSpec {
    /// The user who opens the files.
    pub credentials: Credentials,
    /// File mode creation mask, for a file that was removed after the ranks had made it.
    pub umask: u32,
    /// The job's limit on the size of files.
    pub file_size: Option<ResourceLimit>,
    /// Absolute paths, with patterns expanded. Messages name a file by its index here.
    pub files: Vec<PathBuf>,
}

/// How the output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesEnd {
    /// Every stream has ended, and its bytes are in its file.
    Written,
    /// Some output is lost.
    Failed(FileFailure),
}

/// The reason why output is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFailure {
    /// The step that failed.
    pub step: FileStep,
    /// The index of the file, for steps that concern a file.
    pub file: u8,
    /// Why, in the kernel's words.
    pub errno: Errno,
}

/// The steps of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum FileStep {
    /// Starting the writer.
    #[error("the process that writes its output files cannot be started")]
    Start,
    /// Becoming the user.
    #[error("the process that writes its output files cannot act as the user")]
    User,
    /// Handing the streams of the ranks to the writer.
    #[error("the process that writes its output files does not get the output of the ranks")]
    Streams,
    /// Opening a file.
    #[error("cannot open its output file")]
    Open,
    /// Writing or closing a file.
    #[error("cannot write its output file")]
    Write,
    /// Any step: the writer was killed.
    #[error("the process that writes its output files was killed")]
    Killed,
}

impl FileStep {
    /// Whether the step concerns one of the files.
    #[must_use]
    pub fn is_of_a_file(self) -> bool {
        matches!(self, Self::Open | Self::Write)
    }
}

/// Returns the file of each received stream, and whether the message is the last. `None` for a
/// message that no sender makes.
pub(crate) fn name_streams(
    message: &[u8],
    streams: Vec<OwnedFd>,
    files: usize,
) -> Option<(Vec<(usize, OwnedFd)>, bool)> {
    let (numbers, is_last) = match message.split_last() {
        Some((&LAST, numbers)) => (numbers, true),
        _ => (message, false),
    };
    let is_known = |number: &u8| usize::from(*number) < files;
    if numbers.len() != streams.len() || !numbers.iter().all(is_known) {
        return None;
    }
    Some((numbers.iter().map(|&number| usize::from(number)).zip(streams).collect(), is_last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_or_refused() {
        let open = |count: usize| {
            (0..count).map(|_| std::io::pipe().expect("a pipe").0.into()).collect::<Vec<OwnedFd>>()
        };
        let named = |message: &[u8], count| {
            let (streams, is_last) = name_streams(message, open(count), 2)?;
            Some((streams.into_iter().map(|(file, _)| file).collect::<Vec<_>>(), is_last))
        };
        assert_eq!(named(&[0, 1, 0], 3), Some((vec![0, 1, 0], false)));
        assert_eq!(named(&[1, LAST], 1), Some((vec![1], true)));
        assert_eq!(named(&[LAST], 0), Some((vec![], true)));
        assert_eq!(named(&[0, 2], 2), None);
        assert_eq!(named(&[0, 1], 1), None);
    }
}
