//! `sinfo`: fields, default formats, nodes that share a line, and their order.

mod fields;
mod group;
mod order;

pub use fields::SINFO_FIELDS;
pub use group::{Grouping, SinfoLine, group};
pub use order::{BadSort, Order};

use super::{NodeFacts, PartitionFacts};

/// The options that choose a default format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// `--long`.
    pub long: bool,
    /// `--Node`.
    pub by_node: bool,
    /// `--summarize`.
    pub summary: bool,
    /// `--list-reasons`.
    pub reasons: bool,
}

/// The least width of the column of partitions, and of that of nodes.
const LEAST_WIDTH: usize = 9;

/// The default format for these options. The first columns are as wide as the longest name.
pub fn default_format(
    form: Form,
    partitions: &[PartitionFacts],
    nodes: &[NodeFacts],
) -> String {
    // A star follows the name of the default partition.
    let named = partitions.iter().map(|part| part.name.chars().count() + usize::from(part.default));
    let partition = named.max().unwrap_or(0).max(LEAST_WIDTH);
    let node = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    let node = node.max(LEAST_WIDTH);
    match form {
        Form { summary: true, .. } => format!("%{partition}P %.5a %.10l %.16F %N"),
        Form { reasons: true, long: true, .. } => "%20E %12U %19H %6t %N".to_owned(),
        Form { reasons: true, .. } => "%20E %9u %19H %N".to_owned(),
        Form { by_node: true, long: true, .. } => format!(
            "%{node}N %.6D %.{partition}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
        ),
        Form { by_node: true, .. } => format!("%{node}N %.6D %.{partition}P %6t"),
        Form { long: true, .. } => format!(
            "%{partition}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
        ),
        Form { .. } => format!("%{partition}P %.5a %.10l %.6D %.6t %N"),
    }
}

/// The order of lines without `--sort`.
pub fn default_order(form: Form) -> &'static str {
    if form.by_node { "N" } else { "#P,-t" }
}
