//! Table 3: broadcast bandwidth, by Equation 3.

use super::paper::TABLE_3_MIB_S;
use super::{Axis, Bound, Chart, Exhibit, Reproduction, Row};
use storm_model::{TABLE_3_CABLES_M, table_3};

const SOURCE: &str = "Table 3";

pub(super) fn table3() -> Reproduction {
    let mut chart = Chart::new(Axis::linear("cable, m"), Axis::linear("bandwidth, MiB/s"));
    let mut rows = Vec::new();
    for (ours, paper) in table_3().iter().zip(TABLE_3_MIB_S) {
        let cells = TABLE_3_CABLES_M.iter().zip(&ours.bandwidth_mib_s).zip(paper);
        let mut marks = (Vec::new(), Vec::new());
        for ((&cable_m, bandwidth), paper) in cells {
            let quantity = format!("{} nodes, {cable_m} m", ours.nodes);
            rows.push(Row::model(quantity, bandwidth.get(), "MiB/s").with_paper(paper, SOURCE));
            marks.0.push((f64::from(cable_m), bandwidth.get()));
            marks.1.push((f64::from(cable_m), paper));
        }
        chart = chart.curve(format!("{} nodes", ours.nodes), marks.0).marks("", marks.1);
    }
    let bounds = bounds(&rows);
    Reproduction::new(Exhibit::Table3, rows)
        .bounded(bounds)
        .drawn(chart)
        .note("The paper writes MB/s for MiB/s: only so do its cells come out. Dots are its cells.")
}

/// One bound for all cells, and a bound with a name for each cell that is wrong.
fn bounds(rows: &[Row]) -> Vec<Bound> {
    let each = rows.iter().map(|row| {
        let paper = row.paper.unwrap_or(f64::NAN);
        Bound::rounds_to(&row.quantity, row.ours, paper, row.unit)
    });
    let (equal, wrong): (Vec<_>, Vec<_>) = each.partition(Bound::is_kept);
    let cells = TABLE_3_MIB_S.as_flattened().len() as f64;
    let all = Bound::at_least("cells equal after rounding", Some(equal.len() as f64), cells, "");
    [all].into_iter().chain(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cells_are_equal_and_a_wrong_one_has_its_name() {
        let mut table = table3();
        assert_eq!(table.rows.len(), 54);
        assert!(table.bounds.iter().all(Bound::is_kept), "{:?}", table.bounds);
        table.rows[10].ours = Some(320.0);
        let bounds = bounds(&table.rows);
        assert_eq!(bounds.iter().filter(|bound| !bound.is_kept()).count(), 2);
        assert_eq!(bounds[1].name, "16 nodes, 20 m");
    }
}
