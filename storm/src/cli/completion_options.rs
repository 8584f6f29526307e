//! Options of `storm completion`.

use clap::Args;
use clap_complete::Shell;

/// Options of `completion`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  storm completion bash > ~/.local/share/bash-completion/completions/storm
  storm completion zsh > /usr/local/share/zsh/site-functions/_storm
  storm completion fish > ~/.config/fish/completions/storm.fish")]
pub(crate) struct CompletionOptions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
