//! `model table`.

use super::compare::comparison;
use super::number;
use crate::cli::TableArgument;
use crate::output::Sheet;
use storm_model::{TABLE_3_CABLES_M, crossovers, fig_8, fig_9, table_2, table_3, table_5};

/// A table or figure of the paper.
pub(super) fn sheet(which: TableArgument) -> Sheet {
    match which {
        TableArgument::Table2 => table_2_sheet(),
        TableArgument::Table3 => table_3_sheet(),
        TableArgument::Table5 => table_5_sheet(),
        TableArgument::Fig8 => fig_8_sheet(),
        TableArgument::Fig9 => comparison(&fig_9()).note("Seconds; (x) times STORM's (Fig. 9b)."),
        TableArgument::Crossover => crossover_sheet(),
    }
}

fn table_2_sheet() -> Sheet {
    let rows = table_2();
    let cells = rows.iter().map(|row| {
        let value = row.value.map_or_else(|| "given".to_owned(), |value| value.to_string());
        vec![row.component.to_owned(), value, row.unit.to_owned(), row.description.to_owned()]
    });
    Sheet::new(&rows).table(["COMPONENT", ">VALUE", "UNIT", "WHAT IT IS"], cells)
}

fn table_3_sheet() -> Sheet {
    let rows = table_3();
    let known = [">NODES", ">PROCESSORS", ">STAGES", ">SWITCHES"].map(str::to_owned);
    let cables = TABLE_3_CABLES_M.map(|metres| format!(">{metres} m"));
    let cells = rows.iter().map(|row| {
        let bandwidths = row.bandwidth_mib_s.iter().map(|rate| format!("{:.0}", rate.get()));
        let known = [row.nodes.get(), row.processors, row.stages.into(), row.switches.into()];
        known.iter().map(u64::to_string).chain(bandwidths).collect()
    });
    Sheet::new(&rows)
        .table(known.into_iter().chain(cables), cells)
        .note("Broadcast bandwidth in MiB/s, which the paper calls MB/s, by the longest cable.")
}

fn table_5_sheet() -> Sheet {
    let rows = table_5();
    let cells = rows.iter().map(|row| {
        let error_percent = (row.launch_s / row.paper_s - 1.0) * 100.0;
        vec![
            row.manager.clone(),
            row.binary_mib.to_string(),
            format!("{:.2}", row.launch_s),
            format!("{:.2}", row.paper_s),
            format!("{error_percent:+.2}"),
            row.law.clone(),
        ]
    });
    let columns = ["MANAGER", ">MB", ">SECONDS", ">PAPER", ">ERROR %", "LAW"];
    Sheet::new(&rows).table(columns, cells).note("Launch on 4,096 nodes; lg is to the base 2.")
}

fn fig_8_sheet() -> Sheet {
    let rows = fig_8();
    let cells = rows.iter().map(|row| {
        vec![
            row.nodes.to_string(),
            row.processors.to_string(),
            number(row.broadcast_mib_s.get()),
            number(row.es40_transfer_mib_s.get()),
            number(row.es40_launch_ms),
            number(row.ideal_launch_ms),
        ]
    });
    let columns =
        [">NODES", ">PROCESSORS", ">NETWORK MiB/s", ">ES40 MiB/s", ">ES40 ms", ">IDEAL ms"];
    Sheet::new(&rows).table(columns, cells).note("Launch of 12 MB by Equation 7.")
}

fn crossover_sheet() -> Sheet {
    let rows = crossovers();
    let cells = rows.iter().map(|row| {
        let nodes = row.nodes.map_or_else(|| "never".to_owned(), |nodes| nodes.to_string());
        let paper = row.paper_nodes.map_or_else(String::new, |nodes| nodes.to_string());
        vec![row.rival.to_string(), nodes, paper]
    });
    Sheet::new(&rows).table(["MANAGER", ">NODES", ">PAPER"], cells).note(
        "From this number of nodes on, the system would launch faster than STORM on the paper's \
         network.",
    )
}
