//! The limit behind an error number of the kernel, and how to raise it.

use std::fmt;
use std::fs;
use std::io;

use crate::descriptors::DescriptorLimit;
use crate::ids::Errno;

/// The file with the limit on open files of a host.
const FILES_OF_HOST: &str = "/proc/sys/fs/file-max";

/// A limit of a process or a host that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    errno: Errno,
    /// Set if the keeper lacks something: how many descriptors it may have open, if known.
    keeper: Option<Option<DescriptorLimit>>,
}

impl Shortage {
    /// The limit that an error is about, if any.
    #[must_use]
    pub fn of(errno: Errno) -> Option<Self> {
        let known = [
            libc::EMFILE,
            libc::ENFILE,
            libc::ETOOMANYREFS,
            libc::ENOMEM,
            libc::ENOBUFS,
            libc::EAGAIN,
        ];
        known.contains(&errno.0).then_some(Self { errno, keeper: None })
    }

    /// The same for the keeper, which may have `limit` descriptors open; `None` if unknown.
    pub(crate) fn at_keeper(self, limit: Option<DescriptorLimit>) -> Self {
        Self { keeper: Some(limit), ..self }
    }
}

/// Names the limit behind an error, for the end of a message.
pub(crate) fn told(error: &io::Error) -> String {
    Shortage::of(Errno::of(error)).map_or_else(String::new, |shortage| format!(" ({shortage})"))
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, limit) = match self.keeper {
            None => ("this daemon", Some(DescriptorLimit::of_this_process())),
            Some(limit) => ("the keeper of this node", limit),
        };
        let limit = limit.map_or("too few".to_owned(), |limit| limit.0.to_string());
        match self.errno.0 {
            libc::EMFILE => write!(
                f,
                "{who} may have {limit} descriptors open; raise its hard limit (ulimit -Hn, \
                 LimitNOFILE= of its unit)"
            ),
            libc::ETOOMANYREFS => write!(
                f,
                "more than {limit} descriptors of this user are on their way between processes; \
                 raise the hard limit (ulimit -Hn, LimitNOFILE= of the unit)"
            ),
            libc::ENFILE => {
                let files = fs::read_to_string(FILES_OF_HOST);
                let files = files.as_deref().map_or("only so many", str::trim);
                write!(f, "this host may have {files} files open; raise it (sysctl fs.file-max)")
            }
            libc::EAGAIN => f.write_str(
                "a limit on processes or control groups is reached (ulimit -u, TasksMax= of the \
                 unit, pids.max, cgroup.max.descendants)",
            ),
            _ => {
                f.write_str("the memory of this host, or of the daemon's control group, is used up")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shortage;
    use crate::descriptors::DescriptorLimit;
    use crate::ids::Errno;

    #[test]
    fn a_shortage_names_its_limit() {
        let text = |errno| Shortage::of(Errno(errno)).map(|shortage| shortage.to_string());
        for (errno, named) in [
            (libc::EMFILE, "LimitNOFILE="),
            (libc::ETOOMANYREFS, "LimitNOFILE="),
            (libc::ENFILE, "fs.file-max"),
            (libc::EAGAIN, "pids.max"),
            (libc::ENOMEM, "memory"),
            (libc::ENOBUFS, "memory"),
        ] {
            assert!(text(errno).is_some_and(|text| text.contains(named)), "{errno}");
        }
        assert_eq!(text(libc::EACCES), None);
        let of_keeper = |limit: Option<u64>| {
            let short = Shortage::of(Errno(libc::EMFILE)).expect("a shortage");
            short.at_keeper(limit.map(DescriptorLimit)).to_string()
        };
        assert!(of_keeper(Some(33)).starts_with("the keeper of this node may have 33 descriptors"));
        assert!(of_keeper(None).contains("too few"));
    }
}
