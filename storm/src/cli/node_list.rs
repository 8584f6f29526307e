//! Lists of nodes on the command line: `n[1-4],n7`, or the name of a file that has such lists.

use std::fs;
use storm_primitives::{MAX_NODES, NodeNames};
use thiserror::Error;

/// The text is no list of nodes.
#[derive(Debug, Error)]
pub(crate) enum NotANodeList {
    #[error("nodes are expected, as n3 or n[1-8,12], or a file that lists them")]
    Empty,
    #[error("{text:?} is no list of nodes: {why}")]
    Syntax { text: String, why: String },
    #[error("cannot read the file {file}: {why}")]
    File { file: String, why: std::io::Error },
}

/// Nodes by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeList {
    /// The nodes, folded.
    pub(crate) folded: String,
    /// The number of nodes.
    pub(crate) count: u32,
}

/// Reads a list. A text with a slash is the name of a file, as in Slurm.
pub(crate) fn parse_node_list(text: &str) -> Result<NodeList, NotANodeList> {
    // A range may have a step: `n[1-9/2]`.
    match text.contains('/') && !text.contains('[') {
        true => parse_node_file(text),
        false => of_text(text),
    }
}

/// Reads a file of lists, in lines or with commas.
pub(crate) fn parse_node_file(file: &str) -> Result<NodeList, NotANodeList> {
    let read = fs::read_to_string(file);
    let text = read.map_err(|why| NotANodeList::File { file: file.to_owned(), why })?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    of_text(&lines.join(","))
}

fn of_text(text: &str) -> Result<NodeList, NotANodeList> {
    let wrong = |why: String| NotANodeList::Syntax { text: text.to_owned(), why };
    let set = NodeNames::parse(text, MAX_NODES).map_err(|why| wrong(why.to_string()))?;
    match u32::try_from(set.len()) {
        Ok(0) => Err(NotANodeList::Empty),
        Ok(count) => Ok(NodeList { folded: set.to_string(), count }),
        Err(_) => Err(wrong("it names too many nodes".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_texts_or_files() {
        let list = parse_node_list("n[1-3],n2,m7").expect("a list");
        assert_eq!(list.count, 4);
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("nodes");
        fs::write(&file, "n1\n# none\nn[2-3],n7  # two\n\n").expect("written");
        let list = parse_node_list(file.to_str().expect("text")).expect("a list");
        assert_eq!(list.count, 4);
        for wrong in ["", "n[1-", "/no/such/file"] {
            assert!(parse_node_list(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_node_list("n[1-9/2]").map(|list| list.count).ok(), Some(5));
    }
}
