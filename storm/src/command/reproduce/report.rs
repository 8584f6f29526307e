//! An HTML page with all numbers, bounds and plots, independent of other files.

use super::{Reproduced, number};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use storm_sim::reproduction::{Bound, Row, Verdict};

const STYLE: &str = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .7em;text-align:left}\
td.n,th.n{text-align:right}tr:nth-child(even){background:#f3f3f3}\
.calibrated{color:#777}.missed{color:#b00;font-weight:bold}svg{max-width:100%;height:auto}";

/// The page; `plots` are SVG documents, in the order of the tables and figures.
pub(super) fn html(reproduced: &[Reproduced], plots: &[Option<String>]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "STORM: the paper's tables and figures again" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The paper's tables and figures again" }
                p {
                    "Numbers of the analytic model and of the simulated machine beside those of "
                    em { "STORM: Scalable Resource Management for Large-Scale Parallel Computers" }
                    ". Predicted: from parameters that the paper gives elsewhere. Calibrated: "
                    "something was fitted to that very figure, so that agreement proves nothing. "
                    "Measured: on the host that made this page, which is not the paper's machine."
                }
                ul {
                    @for one in reproduced {
                        li { a href={ "#" (one.what.exhibit) } { (one.what.title) } }
                    }
                }
                @for (one, plot) in reproduced.iter().zip(plots) { (section(one, plot.as_deref())) }
                footer { p { "storm " (env!("CARGO_PKG_VERSION")) } }
            }
        }
    };
    page.into_string()
}

fn section(one: &Reproduced, plot: Option<&str>) -> Markup {
    html! {
        section id=(one.what.exhibit) {
            h2 { (one.what.title) }
            // The plot is our own, and texts in it are escaped where it is drawn.
            @if let Some(svg) = plot { figure { (PreEscaped(svg)) } }
            @if !one.what.bounds.is_empty() {
                table {
                    tr { th { "must hold" } th { "wanted" } th.n { "found" } th { "verdict" } }
                    @for bound in &one.what.bounds { (bound_row(bound)) }
                }
            }
            table {
                tr {
                    th { "number" } th.n { "ours" } th.n { "paper" } th { "unit" }
                    th.n { "error %" } th { "by" } th { "worth" } th { "paper's source" }
                }
                @for row in &one.what.rows { (number_row(row)) }
            }
            @for note in &one.what.notes { p { (note) } }
        }
    }
}

fn bound_row(bound: &Bound) -> Markup {
    let missed = bound.verdict == Verdict::Missed;
    html! {
        tr {
            td { (bound.name) }
            td { (bound.wanted) }
            td.n { (bound.found) }
            td.missed[missed] { (bound.verdict.to_string()) }
        }
    }
}

fn number_row(row: &Row) -> Markup {
    let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
    let error = row.error_percent.map(|percent| format!("{percent:+.2}")).unwrap_or_default();
    html! {
        tr {
            td { (row.quantity) }
            td.n { (optional(row.ours)) }
            td.n { (optional(row.paper)) }
            td { (row.unit) }
            td.n { (error) }
            td { (row.by.to_string()) }
            td class=(row.basis.to_string()) { (row.basis.to_string()) }
            td { (row.source) }
        }
    }
}
