//! `model compare`.

use super::{node_counts, number};
use crate::cli::CompareOptions;
use crate::failure::Failure;
use crate::output::Sheet;
use storm_model::{Fig9Row, Rival, fig_9_row};

/// All systems on machines of these sizes.
pub(super) fn sheet(options: &CompareOptions) -> Result<Sheet, Failure> {
    let nodes = node_counts(&options.nodes)?;
    let rows: Vec<Fig9Row> = nodes.into_iter().map(fig_9_row).collect();
    Ok(comparison(&rows).note(
        "Seconds; (x) times STORM's. Others by their laws in Table 5 of the paper, rsh and GLUnix \
         for a minimal job, all else 12 MB; STORM by Equation 7 on the paper's machine.",
    ))
}

/// A table of launch times.
pub(super) fn comparison(rows: &[Fig9Row]) -> Sheet {
    let rivals = Rival::ALL.map(|rival| format!(">{rival} (x)"));
    let columns = [">NODES".to_owned()].into_iter().chain(rivals).chain([">STORM".to_owned()]);
    let cells = rows.iter().map(|row| {
        let rivals = row.rivals.iter().map(|one| {
            // BProc's law may yield a negative time for few nodes.
            if one.launch_s > 0.0 {
                format!("{} ({:.1})", number(one.launch_s), one.over_storm)
            } else {
                "-".to_owned()
            }
        });
        let storm = format!("{:.4}", row.storm_s);
        [row.nodes.to_string()].into_iter().chain(rivals).chain([storm]).collect()
    });
    Sheet::new(&rows).table(columns, cells)
}
