//! The variables of the submitter's environment that a job gets (`--export`), as in Slurm.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use thiserror::Error;

/// Variables with this prefix are always passed: they tell a `storm` inside the job which cluster
/// to address.
const OURS: &[u8] = b"STORM_";

/// The argument of `--export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportArgument {
    /// Whether the whole environment is passed, in addition to the named variables.
    all: bool,
    /// Names in order, each with the value to set, or `None` to take the submitter's value.
    named: Vec<(OsString, Option<OsString>)>,
}

/// The argument is not `ALL`, `NONE`, or a list of names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotAnExport {
    #[error("a variable's name is expected before and after each comma")]
    NoName,
    #[error("NONE stands alone")]
    NoneAndMore,
    #[error("the quote that opens the value of {} is not closed", .0.display())]
    OpenQuote(OsString),
}

impl Default for ExportArgument {
    fn default() -> ExportArgument {
        ExportArgument { all: true, named: Vec::new() }
    }
}

impl ExportArgument {
    /// Reads `ALL`, `NONE` or `[ALL,]NAME[=VALUE],...`. A value in single quotes may hold commas.
    pub(crate) fn parse(text: OsString) -> Result<ExportArgument, NotAnExport> {
        if text == "NONE" {
            return Ok(ExportArgument { all: false, named: Vec::new() });
        }
        let mut export = ExportArgument { all: false, named: Vec::new() };
        let mut rest = Some(text.as_bytes());
        while let Some(bytes) = rest {
            let (name, value, after) = item(bytes)?;
            match (name, value) {
                (b"", _) => return Err(NotAnExport::NoName),
                (b"NONE", None) => return Err(NotAnExport::NoneAndMore),
                (b"ALL", None) => export.all = true,
                (name, value) => export.named.push((owned(name), value.map(owned))),
            }
            rest = after;
        }
        Ok(export)
    }

    /// Whether the whole environment is passed.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Whether the argument names this variable, with a value or without.
    pub(crate) fn names(&self, variable: &OsStr) -> bool {
        self.named.iter().any(|(name, _)| name == variable)
    }

    /// The environment of the job, taken from the submitter's. A named variable that the submitter
    /// lacks is not set in the job either.
    pub(crate) fn of(
        &self,
        mine: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let named = |name: &OsStr| self.named.iter().rev().find(|(known, _)| known == name);
        let mut exported: Vec<(OsString, OsString)> = mine
            .filter(|(name, _)| match named(name) {
                // Variables with a value are added below.
                Some((_, value)) => value.is_none(),
                None => self.all || name.as_bytes().starts_with(OURS),
            })
            .collect();
        for (name, value) in &self.named {
            let last = named(name).and_then(|(_, value)| value.as_ref());
            if let (Some(value), true) = (value, value.as_ref() == last) {
                exported.retain(|(known, _)| known != name);
                exported.push((name.clone(), value.clone()));
            }
        }
        exported
    }
}

/// The first item: its name, its value, and what follows its comma.
type Item<'a> = (&'a [u8], Option<&'a [u8]>, Option<&'a [u8]>);

fn item(bytes: &[u8]) -> Result<Item<'_>, NotAnExport> {
    let ends_name = |byte: &u8| matches!(byte, b'=' | b',');
    let Some(end) = bytes.iter().position(ends_name) else { return Ok((bytes, None, None)) };
    let (name, rest) = (&bytes[..end], &bytes[end + 1..]);
    if bytes[end] == b',' {
        return Ok((name, None, Some(rest)));
    }
    let Some(quoted) = rest.strip_prefix(b"'") else {
        let end = rest.iter().position(|byte| *byte == b',');
        return Ok(match end {
            Some(end) => (name, Some(&rest[..end]), Some(&rest[end + 1..])),
            None => (name, Some(rest), None),
        });
    };
    let unclosed = || NotAnExport::OpenQuote(owned(name));
    let end = quoted.iter().position(|byte| *byte == b'\'').ok_or_else(unclosed)?;
    match &quoted[end + 1..] {
        [] => Ok((name, Some(&quoted[..end]), None)),
        [b',', after @ ..] => Ok((name, Some(&quoted[..end]), Some(after))),
        // The quote is inside the value, so the opening quote did not start a quotation.
        _ => Err(unclosed()),
    }
}

fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resulting variables as sorted `NAME=VALUE`.
    fn exported(text: &str) -> String {
        let mine = [("HOME", "/h"), ("LANG", "C"), ("STORM_SOCKET", "/s")];
        let mine = mine.into_iter().map(|(name, value)| (name.into(), value.into()));
        let export = ExportArgument::parse(text.into()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut said: Vec<String> = export
            .of(mine)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        said.sort();
        said.join(" ")
    }

    #[test]
    fn it_means_what_slurm_means() {
        for (text, expected) in [
            ("ALL", "HOME=/h LANG=C STORM_SOCKET=/s"),
            ("NONE", "STORM_SOCKET=/s"),
            ("LANG", "LANG=C STORM_SOCKET=/s"),
            ("LANG,NOSUCH", "LANG=C STORM_SOCKET=/s"),
            ("X=1,LANG", "LANG=C STORM_SOCKET=/s X=1"),
            ("ALL,HOME=/other", "HOME=/other LANG=C STORM_SOCKET=/s"),
            ("X=1,ALL", "HOME=/h LANG=C STORM_SOCKET=/s X=1"),
            ("X='a,b',Y=", "STORM_SOCKET=/s X=a,b Y="),
            ("X=1,X=2", "STORM_SOCKET=/s X=2"),
            ("ALL=1", "ALL=1 STORM_SOCKET=/s"),
            ("X=a=b", "STORM_SOCKET=/s X=a=b"),
        ] {
            assert_eq!(exported(text), expected, "{text}");
        }
        let mine = || [("A".into(), "1".into())].into_iter();
        assert_eq!(ExportArgument::default().of(mine()), mine().collect::<Vec<_>>());
    }

    #[test]
    fn malformed_export_lists_are_refused() {
        for (text, expected) in [
            ("", NotAnExport::NoName),
            ("A,", NotAnExport::NoName),
            (",A", NotAnExport::NoName),
            ("=1", NotAnExport::NoName),
            ("NONE,A=1", NotAnExport::NoneAndMore),
            ("A=1,NONE", NotAnExport::NoneAndMore),
            ("A='x", NotAnExport::OpenQuote("A".into())),
            ("A='x'y", NotAnExport::OpenQuote("A".into())),
        ] {
            assert_eq!(ExportArgument::parse(text.into()), Err(expected), "{text}");
        }
    }
}
