//! The options in the lines of a batch script: `#STORM` lines in storm's spelling, and `#SBATCH`
//! lines in Slurm's. They count before the first command. A line that cannot be followed is
//! refused, since the job would not be what its user wrote.

use super::asked::split;
use super::output_name::known_at_submission;
use super::sbatch;
use super::script::ScriptText;
use crate::cli::{Cli, Command, JobOptions, instead_of};
use crate::command::message_and_hint;
use crate::failure::{EXIT_FAILED, EXIT_USAGE, Failure};
use std::ffi::OsString;
use storm_nm::check_pattern;
use storm_slurm::Verb;
use storm_slurm::options::{CommandLine, Given, UsageError, merged, of_variables};

/// The marker of lines in storm's spelling.
const OURS: &str = "#STORM";
/// The marker of lines in Slurm's.
const SLURMS: &str = "#SBATCH";
const MARKERS: [&str; 2] = [OURS, SLURMS];

/// The options that a script asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptLines {
    /// The markers that occur.
    pub(crate) markers: Vec<&'static str>,
    /// The options of `#SBATCH` lines.
    pub(crate) slurm: Vec<Given>,
    /// The options of `#STORM` lines, which count before those.
    pub(crate) ours: Vec<String>,
}

impl ScriptText {
    /// Whether the script has lines for a batch job, right or wrong.
    pub(crate) fn has_lines(&self) -> bool {
        head(self).any(|(_, line)| marker(&line).is_some())
    }
}

/// The note on options of Slurm that ask for mail, if there are any.
pub(crate) fn note_on_mail(given: &[Given]) -> Option<&'static str> {
    let asks = |one: &Given| match one.option.name().as_str() {
        "mail-type" => !one.text().eq_ignore_ascii_case("none"),
        "mail-user" => true,
        _ => false,
    };
    let text = "no mail is sent when the job begins or ends: `storm wait JOB; mail ...`";
    given.iter().any(asks).then_some(text)
}

impl ScriptLines {
    /// The lines of a script before its first command.
    ///
    /// # Errors
    /// A line has an option that storm does not take.
    pub(crate) fn of(script: &ScriptText) -> Result<ScriptLines, Failure> {
        let (mut of_slurm, mut ours) = (Vec::new(), Vec::new());
        let mut markers = Vec::new();
        for (index, line) in head(script) {
            let Some((marker, behind)) = marker(&line) else { continue };
            let at = |failure: Failure| failure_at(failure, script, index, line.trim());
            match marker {
                OURS => ours.extend(own_words(behind).map_err(at)?),
                _ => of_slurm.extend(slurm_options(behind).map_err(at)?),
            }
            if !markers.contains(&marker) {
                markers.push(marker);
            }
        }
        Ok(ScriptLines { markers, slurm: of_slurm, ours })
    }

    /// The exit status of sbatch(1) for the first wrong `#SBATCH` line.
    pub(crate) fn status_of_sbatch(script: &ScriptText) -> u8 {
        const USUAL: u8 = 255;
        for (_, line) in head(script) {
            let Some((SLURMS, behind)) = marker(&line) else { continue };
            let (words, open) = split(behind);
            if slip(&words, open).is_some() {
                return EXIT_FAILED;
            }
            match CommandLine::of_directive(words) {
                Ok(_) => {}
                Err(UsageError::WrongValue(wrong)) => return wrong.status(),
                Err(_) => return USUAL,
            }
        }
        USUAL
    }

    /// All options in storm's spelling; of two that contradict each other, the later counts.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = words_of(&merged([self.slurm.clone()]));
        replace(&mut words, &self.ours);
        words.extend(self.ours.iter().cloned());
        words
    }
}

/// The lines of a script before its first command.
fn head(script: &ScriptText) -> impl Iterator<Item = (usize, String)> + '_ {
    let lines = script.contents.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(index, line)| (index, String::from_utf8_lossy(line).into_owned()));
    lines.take_while(|(_, line)| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// The marker of a line, and the text behind it.
fn marker(line: &str) -> Option<(&'static str, &str)> {
    let (word, behind) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
    // A colon behind the marker is a slip, and the line is meant to count.
    if let Some(behind) = line.strip_prefix(SLURMS).filter(|behind| behind.starts_with(':')) {
        return Some((SLURMS, behind));
    }
    MARKERS.into_iter().find(|marker| *marker == word).map(|marker| (marker, behind))
}

/// The options that variables of sbatch(1) stand for, in storm's spelling.
///
/// # Errors
/// A variable has a value that the option does not take.
pub(crate) fn words_of_variables(
    value_of: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<String>, Failure> {
    let all = of_variables(Verb::Sbatch, value_of)
        .map_err(|error| Failure::of("usage", &error).exit(EXIT_USAGE))?;
    // Others, as SBATCH_CLUSTERS, are for sbatch alone.
    for given in all.iter().filter(|given| sbatch::counterpart(given).is_some()) {
        checked(given).map_err(|failure| {
            let message = format!("a variable stands for {}: {}", given.written, failure.message);
            Failure { message, ..failure }
        })?;
    }
    Ok(words_of(&merged([all])))
}

/// The words of storm for options of sbatch(1).
pub(crate) fn words_of(given: &[Given]) -> Vec<String> {
    given.iter().filter_map(sbatch::counterpart).flatten().collect()
}

/// Takes away options that later words replace by other options: `--mem` and `--mem-per-cpu`
/// exclude each other.
pub(crate) fn replace(earlier: &mut Vec<String>, later: &[String]) {
    const MEMORY: [&str; 2] = ["--mem", "--mem-per-cpu"];
    let named = |word: &String| MEMORY.contains(&word.split('=').next().unwrap_or(word));
    if !later.iter().any(named) {
        return;
    }
    let mut kept = Vec::new();
    let mut words = std::mem::take(earlier).into_iter();
    while let Some(word) = words.next() {
        match named(&word) {
            true if !word.contains('=') => drop(words.next()),
            true => {}
            false => kept.push(word),
        }
    }
    *earlier = kept;
}

/// The options of a `#SBATCH` line.
fn slurm_options(line: &str) -> Result<Vec<Given>, Failure> {
    let (mut words, open) = split(line);
    // A line goes on with nothing: sbatch reads each line by itself.
    words.pop_if(|last| last == "\\");
    if let Some(slip) = slip(&words, open) {
        return Err(Failure::new("usage", format!("{slip} in [{line}]")).exit(EXIT_USAGE));
    }
    let options = CommandLine::of_directive(words).map_err(|error| match error {
        UsageError::Refused { written, why } => {
            let message = format!("there is no option {written} for a batch script");
            Failure::new("usage", message).hint(why).exit(EXIT_USAGE)
        }
        UsageError::NotAnOption(word) => unknown(&word),
        error => Failure::of("usage", &error)
            .hint("`storm slurm options sbatch` lists the options")
            .exit(EXIT_USAGE),
    })?;
    options.iter().try_for_each(checked)?;
    Ok(options)
}

/// A slip in a line, in Slurm's words: a quote that is open at the end, or a colon before a word.
fn slip(words: &[String], open: Option<char>) -> Option<String> {
    match open {
        Some(quote) => Some(format!("Unmatched `{quote}`")),
        None if words.iter().any(|word| word.starts_with(':')) => Some("Unexpected `:`".to_owned()),
        None => None,
    }
}

/// Refuses an option that a batch script cannot have, or that has a wrong value.
fn checked(given: &Given) -> Result<(), Failure> {
    match sbatch::counterpart(given) {
        Some(words) => check(&words),
        None if sbatch::is_harmless(given) => Ok(()),
        None => {
            let message = format!("{} counts on the command line of sbatch only", given.written);
            Err(Failure::new("usage", message).hint("remove it from the line").exit(EXIT_USAGE))
        }
    }
}

/// The options of a `#STORM` line.
fn own_words(line: &str) -> Result<Vec<String>, Failure> {
    let (all, open) = split(line);
    if let Some(quote) = open {
        let message = format!("the quote {quote} is not closed");
        return Err(Failure::new("usage", message).exit(EXIT_USAGE));
    }
    check(&all)?;
    Ok(all)
}

fn unknown(word: &str) -> Failure {
    let name = word.split('=').next().unwrap_or(word);
    // A value attached to a letter, as in -wn1.
    let letter = || word.get(..2).filter(|_| !word.starts_with("--"));
    let instead = instead_of(name).or_else(|| instead_of(letter()?));
    if ["hetjob", "packjob"].contains(&word) {
        let message = "a job has one part here, and the line begins another";
        return Failure::new("usage", message).hint("submit several jobs").exit(EXIT_USAGE);
    }
    let message = match word.starts_with('-') {
        true => format!("there is no option {word} for a batch script"),
        false => format!("{word:?} is no option"),
    };
    let hint =
        instead.unwrap_or("`storm batch --help` lists the options: change or remove the line");
    Failure::new("usage", message).hint(hint).exit(EXIT_USAGE)
}

/// Refuses words that are no options of a batch script with right values.
fn check(option: &[String]) -> Result<(), Failure> {
    let usage = |message: String| Failure::new("usage", message).exit(EXIT_USAGE);
    // An option that needs another is checked with it.
    let needs_other = option.iter().any(|word| word.starts_with("--kill-on-invalid-dep"))
        && !option.iter().any(|word| word.starts_with("-d") || word.starts_with("--dependency"));
    let with: &[&str] = if needs_other { &["-d", "singleton"] } else { &[] };
    let before = ["storm", "batch"].into_iter().chain(with.iter().copied());
    let all = before.chain(option.iter().map(String::as_str)).chain(["--", "script"]);
    let cli = Cli::of(all.map(OsString::from).collect()).map_err(|error| {
        let (message, hint) = message_and_hint(&error.render().to_string());
        let hint = option.first().and_then(|word| instead_of(word)).map(str::to_owned).or(hint);
        Failure { hint, ..usage(message) }
    })?;
    let Command::Batch(batch) = cli.command else {
        return Err(usage("these are no options".into()));
    };
    let JobOptions { program, output, error, .. } = &batch.job;
    if program.as_slice() != ["script"] {
        let word = program.first().map(|word| word.to_string_lossy().into_owned());
        return Err(unknown(&word.unwrap_or_default()));
    }
    if let Some(word) = batch.job.of_command_line() {
        let message = format!("{word} counts on the command line only");
        return Err(usage(message).hint("remove it from the line; -N asks for nodes"));
    }
    for pattern in [output, error].into_iter().flatten() {
        check_pattern(&known_at_submission(pattern, "", "").into()).map_err(|error| {
            usage(format!("{}: {error}", pattern.display()))
                .hint("%j is the job, %A the array, %a the index in it, %n the node, %x the name")
        })?;
    }
    Ok(())
}

fn failure_at(failure: Failure, script: &ScriptText, index: usize, line: &str) -> Failure {
    let message = format!("{}, line {}: {line}: {}", script.name, index + 1, failure.message);
    Failure { message, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<ScriptLines, Failure> {
        let contents = text.as_bytes().to_vec();
        ScriptLines::of(&ScriptText { name: "job.sh".to_owned(), path: None, contents })
    }

    fn words_of(text: &str) -> String {
        lines(text).expect("understood").words().join(" ")
    }

    #[test]
    fn lines_count_before_the_first_command() {
        let text = "#!/bin/sh\n# x\n#SBATCH -n4\n\n##SBATCH -n 5\necho\n#SBATCH -n 6\n";
        let found = lines(text).expect("understood");
        assert_eq!((found.words().join(" "), found.markers), ("-n 4".to_owned(), vec!["#SBATCH"]));
    }

    #[test]
    fn values_follow_an_equals_sign_or_blanks_and_may_be_quoted() {
        let text = "#!/bin/sh\n#SBATCH --array               3-5\n#SBATCH --job-name=\"a b\" # x\n\
                    #SBATCH --nodes=2 --ntasks-per-node 3\n#STORM --time 10m -C 'ib|opa'\n";
        assert_eq!(words_of(text), "-a 3-5 -J a b -N 2 --ntasks-per-node 3 --time 10m -C ib|opa");
    }

    #[test]
    fn our_own_lines_count_more_than_slurm_s() {
        let text = "#!/bin/sh\n#STORM --mem 1G\n#SBATCH --mem-per-cpu=2G -n 2\n";
        assert_eq!(words_of(text), "-n 2 --mem 1G");
    }

    #[test]
    fn what_only_helps_is_left_out() {
        let text = "#!/bin/sh\n#SBATCH --hint=nomultithread --switches 1 --contiguous -n 2\n";
        assert_eq!(words_of(text), "-n 2");
    }

    #[test]
    fn a_line_that_cannot_be_followed_is_refused_with_its_number() {
        let refused = |line: &str| {
            let text = format!("#!/bin/sh\n\n{line}\n");
            lines(&text).expect_err("refused")
        };
        let gres = refused("#SBATCH --gres=gpu:2");
        assert_eq!(
            gres.message,
            "job.sh, line 3: #SBATCH --gres=gpu:2: there is no option --gres=gpu:2 for a batch \
             script"
        );
        assert!(gres.hint.is_some_and(|hint| hint.contains("--constraint")));
        assert!(refused("#SBATCH -G1").hint.is_some_and(|hint| hint.contains("--constraint")));
        assert!(refused("#SBATCH -w n[1-").message.contains("no list of nodes"));
        assert!(refused("#SBATCH --time=soon").message.contains("soon"));
        assert!(refused("#SBATCH -o %b.out").message.contains("%b"));
        assert!(refused("#SBATCH --wrap ls").message.contains("command line"));
        assert!(refused("#SBATCH frogs").message.contains("is no option"));
        assert!(refused("#SBATCH -o \"x").message.contains("Unmatched `\"` in [ -o \"x]"));
        assert!(refused("#SBATCH hetjob").message.contains("one part"));
        assert!(refused("#SBATCH: -n 3").message.contains("Unexpected `:` in [: -n 3]"));
        let status = |line: &str| {
            let contents = format!("#!/bin/sh\n{line}\n").into_bytes();
            let name = "job.sh".to_owned();
            ScriptLines::status_of_sbatch(&ScriptText { name, path: None, contents })
        };
        assert_eq!((status("#SBATCH -n two"), status("#SBATCH -o \"x")), (1, 1));
        assert_eq!((status("#SBATCH -t soon"), status("#SBATCH --frogs")), (255, 255));
        assert!(refused("#STORM -o 'x").message.contains("not closed"));
        assert!(refused("#SBATCH -N 4-2").message.contains("4-2"));
        assert!(refused("#STORM --nodes 4").hint.is_some_and(|hint| hint.contains("-N")));
        assert!(refused("#STORM --wrap x").message.contains("line 3"));
        assert!(refused("#STORM ls").message.contains("no option"));
    }

    #[test]
    fn variables_of_sbatch_stand_for_options() {
        let words = |set: &[(&str, &str)]| {
            words_of_variables(|name| {
                let found = set.iter().find(|(known, _)| *known == name)?;
                Some(found.1.into())
            })
        };
        let set = [("SBATCH_TIMELIMIT", "5"), ("SBATCH_REQUEUE", "1"), ("SBATCH_QOS", "")];
        assert_eq!(words(&set).expect("right").join(" "), "-t 5 --requeue");
        let wrong = words(&[("SBATCH_TIMELIMIT", "soon")]).expect_err("no time");
        assert!(wrong.message.contains("SBATCH_TIMELIMIT"), "{wrong:?}");
    }
}
