//! Notes at submission about consequences that the user may not expect.

use storm_mm::api::without_set_id;
use storm_nm::names_one_file;
use storm_rm::{ArraySpec, JobSpec, OsBytes, OutputSpec};

/// The notes on a job.
pub(crate) fn doubts(spec: &JobSpec) -> Vec<String> {
    let array = spec.needs.array.as_ref();
    let shared = array.and_then(|array| shared_output(array, &spec.output));
    set_id(spec).into_iter().chain(shared).collect()
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
}
