//! Progress on a terminal, for steps that take more than a moment.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};
use storm_mm::api::Progress;

/// Nothing is shown for shorter steps.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two turns of a spinner.
const TURN: Duration = Duration::from_millis(100);

/// A bar that appears only if the step takes more than a moment.
pub(super) struct Patient {
    begun: Instant,
    silent: bool,
    template: &'static str,
    bar: Option<ProgressBar>,
}

impl Patient {
    /// A bar with this template; hidden if `silent` or without a terminal.
    pub(super) fn new(silent: bool, template: &'static str) -> Patient {
        let silent = silent || !stderr().is_terminal();
        Patient { begun: Instant::now(), silent, template, bar: None }
    }

    /// Shows the progress.
    pub(super) fn show(&mut self, done: u64, total: u64) {
        if self.silent || self.begun.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(total);
            // The templates are constant and valid; without one the bar is plain.
            if let Ok(style) = ProgressStyle::with_template(self.template) {
                bar.set_style(style);
            }
            bar
        });
        bar.set_position(done);
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of sending a job's files.
pub(super) struct Upload(Patient);

impl Upload {
    /// Hidden if `silent` or without a terminal.
    pub(super) fn new(silent: bool) -> Upload {
        Upload(Patient::new(silent, "sending files {bar:30} {bytes}/{total_bytes}"))
    }

    pub(super) fn show(&mut self, progress: Progress) {
        self.0.show(progress.sent_bytes, progress.total_bytes);
    }
}

/// Counts finished things on a terminal.
pub(super) struct Counter(ProgressBar);

impl Counter {
    /// Counts to `total` `things`; hidden if `silent` or without a terminal.
    pub(super) fn new(silent: bool, things: &'static str, total: u64) -> Counter {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if !silent && stderr().is_terminal() {
            // The template is constant and valid; without it the bar is plain.
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta})") {
                bar.set_style(style);
            }
            bar.set_message(things);
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Counter(bar)
    }

    /// Counts one more.
    pub(super) fn one_more(&self) {
        self.0.inc(1);
    }

    /// Sets the count.
    pub(super) fn reached(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A spinner that disappears on drop.
pub(super) struct Spinner(ProgressBar);

/// Shows `what` is waited for, if that takes more than a moment.
pub(super) fn waiting(silent: bool, what: &'static str) -> Spinner {
    let bar = spinner(what, ProgressDrawTarget::hidden());
    if !silent && stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TURN);
    }
    Spinner(bar)
}

/// A spinner with the text `what`, for a step without a count.
fn spinner(what: &'static str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::default_spinner();
    ProgressBar::with_draw_target(None, target).with_style(style).with_message(what)
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Several steps, each of which takes some time.
pub(super) struct Steps(ProgressBar);

impl Steps {
    /// Hidden if `silent` or without a terminal.
    pub(super) fn new(silent: bool, count: usize) -> Steps {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if !silent && stderr().is_terminal() {
            bar.set_length(count as u64);
            // The template is constant and valid; without it the bar is plain.
            if let Ok(style) = ProgressStyle::with_template("{msg:28} {bar:30} {pos}/{len}") {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr());
            // A step that computes for long does not draw by itself.
            bar.enable_steady_tick(TURN);
        }
        Steps(bar)
    }

    /// Begins the next step.
    pub(super) fn next(&self, what: &str) {
        // Before the first step nothing is finished.
        if !self.0.message().is_empty() {
            self.0.inc(1);
        }
        self.0.set_message(what.to_owned());
    }

    /// Shows the current activity of the step.
    pub(super) fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn a_spinner_says_what_is_waited_for_and_counts_nothing() {
        let terminal = InMemoryTerm::new(4, 60);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = spinner("starting the nodes", target);
        bar.tick();
        let shown = terminal.contents();
        assert_eq!(shown.get(shown.len().saturating_sub(18)..), Some("starting the nodes"));
        assert!(!shown.contains('/'), "{shown}");
        drop(Spinner(bar));
        assert_eq!(terminal.contents(), "", "it goes when what it waits for is over");
    }
}
