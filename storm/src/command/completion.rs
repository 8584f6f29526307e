//! `storm completion`: scripts by which shells complete the command line.

use crate::cli::Cli;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// The name of the command that is completed.
const NAME: &str = "storm";

/// The script that makes `shell` complete the verbs and options of `storm`.
pub(super) fn script(shell: Shell) -> String {
    let whole = Cli::command();
    // The scripts would offer hidden verbs as well.
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set());
    let mut command =
        Command::new(NAME).args(whole.get_arguments().cloned()).subcommands(shown.cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::script;
    use clap_complete::Shell;
    use std::io::Write;
    use std::process;

    /// Bash's completion of the last of these words.
    fn completed(words: &str) -> String {
        let asked = format!(
            "{}\nCOMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _storm storm \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\necho \"${{COMPREPLY[@]}}\"",
            script(Shell::Bash)
        );
        // The script is longer than one argument of a program may be.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(asked.as_bytes()).unwrap();
        let output = process::Command::new("bash").arg("--norc").arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn bash_completes_verbs_options_and_their_values() {
        assert_eq!(completed("storm que"), "queue");
        assert_eq!(completed("storm submit --part"), "--partition");
        assert_eq!(completed("storm nm --backend ver"), "verbs");
        assert_eq!(completed("storm __"), "", "what is hidden is not offered");
    }
}
