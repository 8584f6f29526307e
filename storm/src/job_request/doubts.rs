//! Notes at submission about consequences that the user may not expect.

use std::fs::File;
use storm_mm::api::{Submission, without_set_id};
use storm_nm::names_one_file;
use storm_rm::{ArraySpec, JobSpec, OsBytes, OutputSpec, Program};

/// The extended attribute with the capabilities of a file (capabilities(7)).
const CAPABILITIES: &str = "security.capability";
/// Its longest form, version 3 (`struct vfs_ns_cap_data`).
const CAPABILITIES_MAX_BYTES: usize = 24;

/// The notes on a job.
pub(crate) fn doubts(submission: &Submission) -> Vec<String> {
    let spec = &submission.spec;
    let array = spec.needs.array.as_ref();
    let shared = array.and_then(|array| shared_output(array, &spec.step.output));
    [set_id(spec), capabilities(submission), shared].into_iter().flatten().collect()
}

/// A note if copies lose the set-user-ID or set-group-ID bit of the original. With it, a node would
/// give the rights of the copy's owner to any program that a user sends.
fn set_id(spec: &JobSpec) -> Option<String> {
    let names: Vec<_> = without_set_id(spec).map(OsBytes::to_string_lossy).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the copies of {} on the nodes have no set-uid or set-gid bit; --no-bcast runs the \
             program of the nodes with its bits",
            names.join(", ")
        )
    })
}

/// A note if copies lose the capabilities of the original. A node gives no capabilities to a file
/// that a user sends, for the same reason.
fn capabilities(submission: &Submission) -> Option<String> {
    let spec = &submission.spec;
    let program = match &spec.step.program {
        Program::Shipped(file) => Some(file),
        Program::OnNodes(_) => None,
    };
    let has_any = |hash| {
        let original = submission.files.iter().find(|(known, _)| known == hash);
        original.is_some_and(|(_, file)| has_capabilities(file))
    };
    let files = program.into_iter().chain(&spec.step.files).filter(|file| has_any(&file.hash));
    let names: Vec<_> = files.map(|file| file.name.to_string_lossy()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the copies of {} on the nodes have no file capabilities; --no-bcast runs the program \
             of the nodes with its own",
            names.join(", ")
        )
    })
}

/// Whether a file has capabilities. A file system without such attributes has none.
fn has_capabilities(file: &File) -> bool {
    let mut set = [0_u8; CAPABILITIES_MAX_BYTES];
    rustix::fs::fgetxattr(file, CAPABILITIES, &mut set[..]).is_ok_and(|bytes| bytes > 0)
}

/// A note if all jobs of an array write to the same file.
fn shared_output(array: &ArraySpec, output: &OutputSpec) -> Option<String> {
    let OutputSpec::Files { stdout, stderr } = output else { return None };
    let count = array.extent()?.count;
    let shared =
        [Some(stdout), stderr.as_ref()].into_iter().flatten().find(|p| names_one_file(p))?;
    (count > 1).then(|| {
        format!(
            "all {count} jobs of the array append to {}; %a in its name gives each a file of its own",
            shared.to_string_lossy()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_with_one_file_is_told_of() {
        let files = |stdout: &str, stderr: Option<&str>| OutputSpec::Files {
            stdout: stdout.into(),
            stderr: stderr.map(OsBytes::from),
        };
        let array = |text: &str| text.parse::<ArraySpec>().expect("an array");
        let told = |text, output| shared_output(&array(text), &output);
        let said = told("1-20", files("out", None)).expect("told");
        assert!(said.starts_with("all 20 jobs of the array append to out;"), "{said}");
        assert!(told("1-20", files("%A.%n", None)).is_some());
        assert!(told("1-20", files("%a", Some("err"))).is_some_and(|said| said.contains("to err")));
        assert_eq!(told("1-20", files("%a", None)), None);
        assert_eq!(told("1-20", files("%j", Some("%a.err"))), None);
        assert_eq!(told("7", files("out", None)), None);
        assert_eq!(told("1-20", files("/dev/null", None)), None);
        assert_eq!(told("1-20", OutputSpec::Client), None);
    }
    /// Regression: a copy lost the capabilities without a note.
    #[test]
    fn capabilities_of_a_file_are_seen() {
        // Version 2 with CAP_NET_RAW, permitted and effective.
        let set: Vec<u8> =
            [0x0200_0001_u32, 1 << 13, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let file = tempfile::tempfile().expect("a file");
        assert!(!has_capabilities(&file));
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::fsetxattr(&file, CAPABILITIES, &set, flags) {
            Ok(()) => assert!(has_capabilities(&file)),
            Err(why) => eprintln!("no capabilities on this file system: NOT tested: {why}"),
        }
    }
}
