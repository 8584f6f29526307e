//! Numbers of nodes that do not fit a number of processes. Slurm changes them with a warning.

use crate::cli::{JobOptions, NodeCount, parse_node_list};
use storm_slurm::host_list::{expand, fold};

/// The options with numbers of nodes that the processes can have.
pub(super) fn fitted(options: JobOptions, warn: &mut dyn FnMut(&str)) -> JobOptions {
    let Some(procs) = options.procs else { return options };
    let asked = options.on_nodes.map(|nodes| nodes.least);
    let named = options.nodelist.as_ref().map(|list| list.count);
    let mut fitted = options;
    if let Some(nodes) = asked.max(named).filter(|nodes| *nodes > procs) {
        warn(&format!(
            "Warning: can't run {procs} processes on {nodes} nodes, setting nnodes to {procs}"
        ));
        if fitted.on_nodes.is_some() {
            fitted.on_nodes = Some(NodeCount { least: procs, most: None });
        }
        fitted.nodelist = fitted.nodelist.map(|list| {
            let names = expand(&list.folded).unwrap_or_default();
            let first = names.iter().take(procs as usize).map(String::as_str);
            parse_node_list(&fold(first)).unwrap_or(list)
        });
        return fitted;
    }
    // `-N 2 -n 3 --ntasks-per-node=1` needs three nodes.
    if let (Some(NodeCount { least, most: None }), Some(each)) =
        (fitted.on_nodes, fitted.ntasks_per_node)
    {
        let least = least.max(procs.div_ceil(each.max(1)));
        fitted.on_nodes = Some(NodeCount { least, most: None });
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fit_the_processes() {
        let of = |nodes: Option<u32>, named: Option<&str>, procs, each| {
            let options = JobOptions {
                procs: Some(procs),
                on_nodes: nodes.map(|least| NodeCount { least, most: None }),
                nodelist: named.map(|text| parse_node_list(text).expect("a list")),
                ntasks_per_node: each,
                ..JobOptions::default()
            };
            let mut told = String::new();
            let fitted = fitted(options, &mut |text| told.push_str(text));
            (
                fitted.on_nodes.map(|nodes| nodes.least),
                fitted.nodelist.map(|list| list.folded),
                told,
            )
        };
        let text = "Warning: can't run 1 processes on 2 nodes, setting nnodes to 1".to_owned();
        assert_eq!(of(Some(2), None, 1, None), (Some(1), None, text.clone()));
        assert_eq!(of(None, Some("n[1-2]"), 1, None), (None, Some("n1".to_owned()), text));
        assert_eq!(of(Some(2), None, 3, Some(1)), (Some(3), None, String::new()));
        assert_eq!(of(Some(2), None, 4, Some(2)), (Some(2), None, String::new()));
    }
}
