//! Options of several sources, of which the later counts.

use super::Given;

/// Options that stand for one setting.
const GROUPS: &[&[&str]] = &[&["mem", "mem-per-cpu", "mem-per-gpu"], &["requeue", "no-requeue"]];

/// The options of several sources, the one of least precedence first. Of options for the same
/// setting only the last counts.
pub fn merged(sources: impl IntoIterator<Item = Vec<Given>>) -> Vec<Given> {
    let mut all: Vec<Given> = Vec::new();
    for given in sources.into_iter().flatten() {
        all.retain(|earlier| !replaces(&given, earlier));
        all.push(given);
    }
    all
}

fn replaces(given: &Given, earlier: &Given) -> bool {
    let (new, old) = (given.option.name(), earlier.option.name());
    let both = |group: &&&[&str]| group.contains(&new.as_str()) && group.contains(&old.as_str());
    new == old || GROUPS.iter().any(|group| both(&group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CommandLine;

    #[test]
    fn the_later_source_counts() {
        let line = |text: &str| {
            let words = text.split_whitespace().map(str::to_owned).collect();
            CommandLine::of_directive(words).expect("right")
        };
        let all = merged([line("-n 2 --mem=1G --requeue"), line("--mem-per-cpu 2G"), line("-n 4")]);
        let written: Vec<&str> = all.iter().map(|given| given.written.as_str()).collect();
        assert_eq!(written, ["--requeue", "--mem-per-cpu 2G", "-n 4"]);
    }
}
