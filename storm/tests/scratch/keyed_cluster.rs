//! A cluster with a key on loopback, with its daemons as separate processes.

use super::Scratch;
use super::daemons::Daemons;
use std::fs;

/// Its nodes, of 2 processing elements each. The configuration has one more.
pub(crate) const NODES: usize = 2;

/// A manager and its nodes, all of them idle.
pub(crate) struct KeyedCluster {
    pub(crate) scratch: Scratch,
    pub(crate) daemons: Daemons,
    /// The address for nodes.
    pub(crate) address: String,
    /// The options that select the cluster on this host.
    pub(crate) at: String,
}

impl KeyedCluster {
    /// Starts it; `further` ends the configuration.
    pub(crate) fn start(further: &str) -> KeyedCluster {
        KeyedCluster::start_by(|_| (String::new(), further.to_owned()))
    }

    /// Starts it with lines before the configuration's tables and lines at its end, which may
    /// depend on the cluster's key.
    pub(crate) fn start_by(lines: impl FnOnce(&Scratch) -> (String, String)) -> KeyedCluster {
        let scratch = Scratch::make();
        let work = scratch.work().display().to_string();
        scratch.prints("key new cluster.key");
        let (settings, further) = lines(&scratch);
        let config = format!(
            "cluster = \"{}\"\nlisten = \"127.0.0.1:0\"\nsocket = \"{work}/mm.sock\"\nstate-dir = \"{work}/state\"\n\
             security = {{ key-file = \"{work}/cluster.key\" }}\n{settings}\n\
             [[nodes]]\nnames = \"n[1-{}]\"\npes = 2\n{further}",
            scratch.cluster(),
            NODES + 1
        );
        fs::write(scratch.work().join("storm.toml"), config).expect("written");
        let mut daemons = Daemons::default();
        daemons.start(&scratch, "mm", scratch.storm(["mm", "--config", "storm.toml"]));
        let address = daemons.wait_for(&scratch, || logged(&scratch, "listen"));
        let at = format!("--socket {work}/mm.sock");
        let mut cluster = KeyedCluster { scratch, daemons, address, at };
        for node in 1..=NODES {
            let name = format!("n{node}");
            let words = format!("{} --key cluster.key", cluster.node(&name));
            let command = cluster.scratch.storm(words.split_whitespace());
            cluster.daemons.start(&cluster.scratch, &name, command);
        }
        cluster.scratch.wait_for(&format!("nodes {}", cluster.at), |nodes| {
            (nodes.to_string().matches("IDLE").count() == NODES).then_some(())
        });
        cluster
    }

    /// The words for a node of this cluster, without its key.
    pub(crate) fn node(&self, name: &str) -> String {
        let work = self.scratch.work().display();
        let (cluster, address) = (self.scratch.cluster(), &self.address);
        format!(
            "nm --cluster {cluster} --mm {address} --name {name} --pes 2 \
             --work-dir {work}/{name} --once"
        )
    }

    pub(crate) fn manager_log(&self) -> String {
        Daemons::log(&self.scratch, "mm")
    }

    /// The first value of a field in the manager's log.
    pub(crate) fn logged(&self, field: &str) -> Option<String> {
        logged(&self.scratch, field)
    }

    /// Number of the manager's open files.
    pub(crate) fn open_files(&self) -> usize {
        let pid = self.daemons.pid("mm");
        fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count()
    }

    /// Waits until the manager has at most `most` open files.
    pub(crate) fn await_open_files(&mut self, most: usize) {
        let pid = self.daemons.pid("mm");
        let open = || fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count();
        self.daemons.wait_for(&self.scratch, || (open() <= most).then_some(()));
    }
}

fn logged(scratch: &Scratch, field: &str) -> Option<String> {
    let log = Daemons::log(scratch, "mm");
    let (_, rest) = log.split_once(&format!(" {field}="))?;
    // Only whole lines count.
    let (line, _) = rest.split_once('\n')?;
    line.split_whitespace().next().map(str::to_owned)
}
