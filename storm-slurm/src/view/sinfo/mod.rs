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

/// The default format for these options.
pub fn default_format(form: Form) -> &'static str {
    match form {
        Form { summary: true, .. } => "%#P %.5a %.10l %.16F %N",
        Form { reasons: true, long: true, .. } => "%20E %12U %19H %6t %N",
        Form { reasons: true, .. } => "%20E %9u %19H %N",
        Form { by_node: true, long: true, .. } => {
            "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
        }
        Form { by_node: true, .. } => "%#N %.6D %.#P %6t",
        Form { long: true, .. } => "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N",
        Form { .. } => "%#P %.5a %.10l %.6D %.6t %N",
    }
}

/// The order of lines without `--sort`.
pub fn default_order(form: Form) -> &'static str {
    if form.by_node { "N" } else { "#P,-t" }
}

/// The format with a width for each `#`, which stands for that of the longest name, at least nine.
pub fn fitting(format: &str, partitions: &[PartitionFacts], nodes: &[NodeFacts]) -> String {
    const LEAST: usize = 9;
    // A star follows the name of the default partition.
    let named = partitions.iter().map(|part| part.name.chars().count() + usize::from(part.default));
    let partition = named.max().unwrap_or(0).max(LEAST);
    let node = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0).max(LEAST);
    format.replace("#P", &format!("{partition}P")).replace("#N", &format!("{node}N"))
}
