//! Options of `storm key`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `key`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  storm key new /etc/storm/cluster.key     make a key, readable by you alone
  storm key show /etc/storm/cluster.key    its name, by which logs call it

Every daemon of the cluster needs the same key: the Machine Manager finds it by
key-file in [security] of its configuration, a Node Manager by --key. Copy it as
you would a password.")]
pub(crate) struct KeyOptions {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// What is done with a key.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key in a file of mode 0600
    New {
        /// The file, which must not exist
        #[arg(value_name = "FILE", default_value = "/etc/storm/cluster.key")]
        file: PathBuf,
        /// Replace a key that is there
        #[arg(long)]
        force: bool,
    },
    /// Check a key file, and show the name of its key
    Show {
        /// The file
        #[arg(value_name = "FILE", default_value = "/etc/storm/cluster.key")]
        file: PathBuf,
    },
}
