//! Command lines.

use proptest::collection::vec;
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use storm_slurm::options::{CommandLine, job_words};
use storm_slurm::{JobName, Verb};

fn word() -> impl Strategy<Value = OsString> {
    let likely = "(-[nNtoJHWz]|--(no|mem|time|output|hold|frogs|nice|n))(=|)([0-9%x:-]{0,4}|)";
    prop_oneof![
        likely.prop_map(OsString::from),
        "[a-z0-9_./-]{0,6}".prop_map(OsString::from),
        vec(any::<u8>(), 0..6).prop_map(OsString::from_vec),
    ]
}

proptest! {
    /// Every word is read: as an option, its value or an operand, or it is told as wrong.
    #[test]
    fn no_words_are_lost(words in vec(word(), 0..8), verb in 0..Verb::ALL.len()) {
        let verb = Verb::ALL[verb];
        let most = words.len();
        if let Ok(line) = CommandLine::read(verb, words) {
            prop_assert!(line.operands.len() <= most);
            for given in &line.options {
                prop_assert!(given.option.verbs.contains(&verb));
                prop_assert!(job_words(verb, given).len() <= 2);
            }
        }
    }

    #[test]
    fn a_job_is_shown_as_it_was_typed(text in "[0-9_\\[\\],.%a-z-]{0,12}") {
        if let Ok(name) = text.parse::<JobName>() {
            prop_assert_eq!(name.to_string(), text);
        }
    }
}
