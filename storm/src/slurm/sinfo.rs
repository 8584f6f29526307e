//! sinfo(1): partitions and nodes.

use super::asking::asked;
use super::complaint::Complaint;
use super::node_facts::{node_facts, partition_facts, reservation_facts};
use super::source::Source;
use crate::command::{note, print};
use std::rc::Rc;
use std::time::Duration;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::view::json::grouped;
use storm_slurm::view::scontrol::{RESERVATION_HEADS, reservation_row};
use storm_slurm::view::sinfo::{
    Form, Grouping, Order, SINFO_FIELDS, SinfoLine, default_format, default_order, fitting, group,
};
use storm_slurm::view::{Layout, NodeFacts, PartitionFacts, Show, UnknownField, help_format};

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&help_format(SINFO_FIELDS)).map(|()| 0)?);
    }
    let iterate_s = iterate(line)?;
    let states = states(line)?;
    let mut source = Source::open().await?;
    let clusters = line.list("clusters");
    if let Some(other) = source.is_one_of(&clusters).await?.first() {
        return Err(Complaint::error(format!("No cluster '{other}' known by database.")));
    }
    let mut told = false;
    loop {
        let mut text = listing(line, &states, &mut source, &mut told).await?;
        if iterate_s.is_some() && !line.has("long") {
            text.insert_str(0, &format!("{}\n", source.show().await?.date_line()));
        }
        print(&text)?;
        let Some(seconds) = iterate_s else { return Ok(0) };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

/// A whole listing. What is wrong with the format is told the first time only.
async fn listing(
    line: &CommandLine,
    states: &[String],
    source: &mut Source,
    told: &mut bool,
) -> Result<String, Complaint> {
    let show = source.show().await?;
    let mut text = String::new();
    if !line.has("noheader") && line.has("clusters") {
        text += &format!("CLUSTER: {}\n", show.cluster);
    }
    if line.has("reservation") {
        return Ok(text + &reservations(line, source, &show).await?);
    }
    let views = source.nodes().await?;
    let partitions: Vec<PartitionFacts> =
        source.partitions().await?.iter().map(|view| partition_facts(view, &views)).collect();
    let nodes: Vec<NodeFacts> = views.iter().map(node_facts).collect();
    let (layout, unknown) = columns(line, &partitions, &nodes);
    if !std::mem::replace(told, true) {
        note(&unknown.concat());
    }
    let nodes: Vec<Rc<NodeFacts>> =
        nodes.into_iter().filter(|node| is_asked_for(line, states, node)).map(Rc::new).collect();
    let wanted = line.list("partition");
    let wanted = |partition: &PartitionFacts| wanted.is_empty() || wanted.contains(&partition.name);
    let partitions: Vec<Rc<PartitionFacts>> =
        partitions.into_iter().filter(|partition| wanted(partition)).map(Rc::new).collect();
    let form = form(line);
    let grouping =
        Grouping { by_node: form.by_node, exact: line.has("exact") || (form.by_node && form.long) };
    let mut lines = group(&partitions, &nodes, &layout, grouping);
    if form.reasons {
        lines.retain(|line| line.nodes.iter().any(|node| node.reason.is_some()));
    }
    order(line, form)?.sort(&mut lines, &show);
    if line.has("json") {
        return Ok(grouped(&lines, &asked(), &show));
    }
    if !line.has("noheader") {
        if form.long {
            text += &format!("{}\n", show.date_line());
        }
        text += &layout.heads();
    }
    text.extend(lines.iter().map(|line| layout.row(line, &show)));
    Ok(text)
}

fn form(line: &CommandLine) -> Form {
    Form {
        long: line.has("long"),
        by_node: line.has("Node"),
        summary: line.has("summarize"),
        reasons: line.has("list-reasons"),
    }
}

/// The columns, and the complaints about fields that do not exist.
fn columns(
    line: &CommandLine,
    partitions: &[PartitionFacts],
    nodes: &[NodeFacts],
) -> (Layout<SinfoLine>, Vec<String>) {
    let given = line.options.iter().rfind(|one| one.option.is("format") || one.option.is("Format"));
    if let Some(given) = given
        && given.option.is("Format")
    {
        let (layout, unknown) = Layout::of_names(&given.text(), SINFO_FIELDS);
        let told = |UnknownField(field)| {
            format!("sinfo: error: Invalid job format specification: {field}\n")
        };
        return (layout, unknown.into_iter().map(told).collect());
    }
    let variable = || std::env::var("SINFO_FORMAT").ok().filter(|format| !format.is_empty());
    let form = form(line);
    let by_variable = if form == Form::default() { variable() } else { None };
    let format = given.map(|given| given.text().into_owned()).or(by_variable);
    let format = format.unwrap_or_else(|| default_format(form).to_owned());
    let (layout, unknown) = Layout::of_letters(&fitting(&format, partitions, nodes), SINFO_FIELDS);
    let told = |UnknownField(field)| format!("Invalid node format specification: {field}\n");
    (layout, unknown.into_iter().map(told).collect())
}

fn order(line: &CommandLine, form: Form) -> Result<Order, Complaint> {
    let variable = || std::env::var("SINFO_SORT").ok().filter(|order| !order.is_empty());
    let given = line.text("sort").map(|text| text.into_owned()).or_else(variable);
    let order = Order::of(given.as_deref().unwrap_or(default_order(form)));
    order.map_err(|error| Complaint::error(error.to_string()))
}

fn is_asked_for(line: &CommandLine, states: &[String], node: &NodeFacts) -> bool {
    let named = line.text("nodes").map(|list| expand(&list).unwrap_or_default());
    named.is_none_or(|names| names.contains(&node.name))
        && (states.is_empty() || states.iter().any(|state| node.is_in(state) == Some(true)))
        && (!line.has("dead") || !node.responds)
        && (!line.has("responding") || node.responds)
}

/// The states behind `--states`; several that must hold together are joined by `&`.
fn states(line: &CommandLine) -> Result<Vec<String>, Complaint> {
    let states = line.list("states");
    let unknown = |state: &&String| !NodeFacts::knows_state(state);
    match states.iter().find(unknown) {
        None => Ok(states),
        Some(state) => Err(Complaint::error(format!("Bad state string: \"{state}\""))
            .and_error(format!("valid states: {}", NodeFacts::STATES))),
    }
}

async fn reservations(
    line: &CommandLine,
    source: &mut Source,
    show: &Show,
) -> Result<String, Complaint> {
    let reservations = source.reservations().await?;
    if reservations.is_empty() {
        return Ok("No reservations in the system\n".to_owned());
    }
    let heads = if line.has("noheader") { "" } else { RESERVATION_HEADS };
    let rows = reservations.iter().map(|view| reservation_row(&reservation_facts(view), show));
    Ok(std::iter::once(heads.to_owned()).chain(rows).collect())
}

fn iterate(line: &CommandLine) -> Result<Option<u64>, Complaint> {
    let Some(text) = line.text("iterate") else { return Ok(None) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Some(seconds)),
        _ => Err(Complaint::error(format!("--iterate={text}"))),
    }
}
