//! Options of `storm key`.

use super::defaults::CLUSTER_KEY;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use storm_session::UserName;

/// Options of `key`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  storm key new /etc/storm/cluster.key     make a key, readable by you alone
  storm key show /etc/storm/cluster.key    its name, as in the logs

  storm key client --user alice --output alice.key
                                           a key for alice, to command the
                                           cluster from other hosts
  storm key client --user alice --output - | ssh alice@front \\
      'umask 077; mkdir -p .config/storm; cat > .config/storm/client.key'

  storm key door --output - | ssh root@front \\
      'umask 077; cat > /etc/storm/door.key'
                                           a key for `storm relay` on front

Every daemon of the cluster needs the same key: the Machine Manager finds it by
key-file in [security] of its configuration, a Node Manager by --key. Copy it as
you would a password. Users on other hosts need only a client key, which is made from
the cluster key; the manager listens for them on `listen` of [clients].")]
pub(crate) struct KeyOptions {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// The actions on a key.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key in a file of mode 0600
    New {
        /// The file, which must not exist
        #[arg(value_name = "FILE", default_value = CLUSTER_KEY)]
        file: PathBuf,
        /// Replace an existing key
        #[arg(long)]
        force: bool,
    },
    /// Make a key for a user of other hosts, from the cluster's key
    Client {
        /// The user, as the Machine Manager's host knows it
        #[arg(long, value_name = "USER")]
        user: UserName,
        /// File to write, with mode 0600; must not exist; `-` is standard output
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// Replace an existing key
        #[arg(long)]
        force: bool,
        /// Allow a key for root, who commands all jobs
        #[arg(long)]
        allow_root: bool,
        /// The cluster's key
        #[arg(value_name = "CLUSTER_KEY", default_value = CLUSTER_KEY)]
        cluster_key: PathBuf,
    },
    /// Make a key for a login host, whose users then need none, from the cluster's key
    Door {
        /// File to write, with mode 0600; must not exist; `-` is standard output
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// Replace an existing key
        #[arg(long)]
        force: bool,
        /// The cluster's key
        #[arg(value_name = "CLUSTER_KEY", default_value = CLUSTER_KEY)]
        cluster_key: PathBuf,
    },
    /// Check a key file, and show the name of its key
    Show {
        /// The file
        #[arg(value_name = "FILE", default_value = CLUSTER_KEY)]
        file: PathBuf,
    },
}
