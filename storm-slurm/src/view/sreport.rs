//! The reports of sreport(1): what a cluster was used for in a period.

use super::{JobFacts, Sheet, SheetColumn, Show};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The line above and below a title.
const RULE: &str =
    "--------------------------------------------------------------------------------";

/// The time that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The begin.
    pub start: Timestamp,
    /// The end, which is not part of it.
    pub end: Timestamp,
}

impl Period {
    /// Its length in seconds.
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.end.duration_since(self.start).as_secs()).unwrap_or(0)
    }

    /// The processor seconds that a job used in the period. In the time in which its row was not
    /// active, others had its processing elements; that time is taken out evenly.
    pub fn used_s(&self, job: &JobFacts, now: Timestamp) -> u64 {
        let Some(start) = job.start.filter(|_| !job.node_list.is_empty()) else { return 0 };
        let part =
            Period { start: start.max(self.start), end: job.ended.unwrap_or(now).min(self.end) };
        let all = u128::from(job.ran_s) + u128::from(job.suspended_s);
        let whole = u128::from(part.seconds()) * u128::from(job.cpus);
        let used = (whole * u128::from(job.ran_s)).checked_div(all).unwrap_or(whole);
        u64::try_from(used).unwrap_or(u64::MAX)
    }
}

/// How amounts of processor time are written (`-t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// In seconds.
    Seconds,
    /// In minutes.
    Minutes,
    /// In hours.
    Hours,
    /// In percent of the reported total.
    Percent,
}

impl TimeUnit {
    /// Slurm's names: `Minutes`, and any beginning of it.
    pub fn named(name: &str) -> Option<TimeUnit> {
        let name = name.to_ascii_lowercase();
        let all = [TimeUnit::Seconds, TimeUnit::Minutes, TimeUnit::Hours, TimeUnit::Percent];
        let is = |unit: &TimeUnit| unit.name().to_ascii_lowercase().starts_with(&name);
        all.into_iter().find(|unit| !name.is_empty() && is(unit))
    }

    fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "Seconds",
            TimeUnit::Minutes => "Minutes",
            TimeUnit::Hours => "Hours",
            TimeUnit::Percent => "Percent",
        }
    }

    fn text(self, seconds: u64, reported_s: u64) -> String {
        match self {
            TimeUnit::Seconds => seconds.to_string(),
            TimeUnit::Minutes => rounded(seconds, 60).to_string(),
            TimeUnit::Hours => rounded(seconds, 3_600).to_string(),
            TimeUnit::Percent => {
                let part = u128::from(seconds) * 10_000 / u128::from(reported_s.max(1));
                format!("{}.{:02}%", part / 100, part % 100)
            }
        }
    }
}

fn rounded(seconds: u64, unit_s: u64) -> u64 {
    seconds.saturating_add(unit_s / 2) / unit_s
}

/// A user under an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    account: String,
    user: String,
}

/// A report about jobs.
pub struct Report<'a> {
    /// Its period.
    pub period: Period,
    /// The form of amounts.
    pub unit: TimeUnit,
    /// The processing elements of the cluster.
    pub cpus: u64,
    /// The jobs.
    pub jobs: &'a [JobFacts],
    /// The users' full names.
    pub proper_names: &'a dyn Fn(&str) -> String,
    /// The surroundings.
    pub show: &'a Show,
}

impl Report<'_> {
    /// The title of `cluster Utilization`.
    pub fn utilization_title(&self) -> String {
        self.title(&format!("Cluster Utilization {}", self.span()))
    }

    /// `cluster Utilization`. The manager does not keep when nodes were down.
    pub fn utilization(&self) -> Sheet {
        let reported_s = self.reported_s();
        let used_s: u64 = self.jobs.iter().map(|job| self.period.used_s(job, self.show.now)).sum();
        let used_s = used_s.min(reported_s);
        let amount = |seconds| self.unit.text(seconds, reported_s);
        let row = vec![
            self.show.cluster.clone(),
            amount(used_s),
            amount(0),
            amount(0),
            amount(reported_s - used_s),
            amount(0),
            amount(reported_s),
        ];
        let heads = ["Cluster", "Allocated", "Down", "PLND Down", "Idle", "Planned", "Reported"];
        Sheet { columns: columns(&heads, &[9, 12, 10, 10, 12, 12, 12]), rows: vec![row] }
    }

    /// The title of `user TopUsage`.
    pub fn top_title(&self, most: usize) -> String {
        self.title(&format!("Top {most} Users {}{}", self.span(), self.length()))
    }

    /// `user TopUsage`: the users who used the most.
    pub fn top(&self, most: usize) -> Sheet {
        let mut all: Vec<(Owner, u64)> = self.used().into_iter().collect();
        // Equal amounts stay in the order of the names.
        all.sort_by_key(|(_, used_s)| std::cmp::Reverse(*used_s));
        let row = |(owner, used_s): &(Owner, u64)| {
            let Owner { account, user } = owner;
            vec![
                self.show.cluster.clone(),
                user.clone(),
                (self.proper_names)(user),
                account.clone(),
                self.unit.text(*used_s, self.reported_s()),
                "0".to_owned(),
            ]
        };
        let heads = ["Cluster", "Login", "Proper Name", "Account", "Used", "Energy"];
        Sheet {
            columns: columns(&heads, &[9, 9, 15, 15, 10, 8]),
            rows: all.iter().take(most).map(row).collect(),
        }
    }

    /// The title of `cluster AccountUtilizationByUser`.
    pub fn by_account_title(&self) -> String {
        let what = "Cluster/Account/User Utilization";
        self.title(&format!("{what} {}{}", self.span(), self.length()))
    }

    /// `cluster AccountUtilizationByUser`: each account, and the users of it.
    pub fn by_account(&self) -> Sheet {
        let used = self.used();
        let mut rows = Vec::new();
        let amount = |seconds| self.unit.text(seconds, self.reported_s());
        let mut last: Option<&str> = None;
        for (Owner { account, user }, used_s) in &used {
            let cells = |login: &str, proper: String, used_s| {
                vec![
                    self.show.cluster.clone(),
                    account.clone(),
                    login.to_owned(),
                    proper,
                    amount(used_s),
                    "0".to_owned(),
                ]
            };
            if last != Some(account) {
                let of_account = used.iter().filter(|(owner, _)| owner.account == *account);
                let sum = of_account.map(|(_, used_s)| used_s).sum();
                rows.push(cells("", String::new(), sum));
            }
            last = Some(account);
            rows.push(cells(user, (self.proper_names)(user), *used_s));
        }
        let heads = ["Cluster", "Account", "Login", "Proper Name", "Used", "Energy"];
        Sheet { columns: columns(&heads, &[9, 15, 9, 15, 10, 8]), rows }
    }

    /// The use of each user under each account; users without any are left out.
    fn used(&self) -> BTreeMap<Owner, u64> {
        let mut all: BTreeMap<Owner, u64> = BTreeMap::new();
        for job in self.jobs {
            let used_s = self.period.used_s(job, self.show.now);
            let account = job.account.clone().unwrap_or_default();
            let sum = all.entry(Owner { account, user: job.user.clone() }).or_default();
            *sum = sum.saturating_add(used_s);
        }
        all.retain(|_, used_s| *used_s > 0);
        all
    }

    fn reported_s(&self) -> u64 {
        self.period.seconds().saturating_mul(self.cpus)
    }

    /// The first second and the last.
    fn span(&self) -> String {
        let second = jiff::SignedDuration::from_secs(1);
        let last = self.period.end.checked_sub(second).unwrap_or(self.period.end);
        format!("{} - {}", self.show.time(self.period.start), self.show.time(last))
    }

    fn length(&self) -> String {
        format!(" ({} secs)", self.period.seconds())
    }

    fn title(&self, title: &str) -> String {
        let unit = match self.unit {
            TimeUnit::Percent => "Percentage of Total".to_owned(),
            unit => format!("CPU {}", unit.name()),
        };
        format!("{RULE}\n{title}\nUsage reported in {unit}\n{RULE}\n")
    }
}

fn columns(heads: &[&str], widths: &[i32]) -> Vec<SheetColumn> {
    let column =
        |(head, width): (&&str, &i32)| SheetColumn { head: (*head).to_owned(), width: *width };
    heads.iter().zip(widths).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sacct::Form;
    use jiff::tz::TimeZone;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn job(user: &str, start: i64, end: i64, cpus: u32) -> JobFacts {
        JobFacts {
            user: user.to_owned(),
            account: Some("physics".to_owned()),
            node_list: "n1".to_owned(),
            start: Some(at(start)),
            ended: Some(at(end)),
            ran_s: (end - start) as u64,
            cpus,
            ..JobFacts::submitted(1, at(0))
        }
    }

    #[test]
    fn a_job_counts_for_its_part_of_the_period_in_which_it_ran() {
        let period = Period { start: at(100), end: at(200) };
        let used = |job: JobFacts| period.used_s(&job, at(1_000));
        assert_eq!(used(job("ada", 0, 150, 2)), 100);
        assert_eq!(used(job("ada", 300, 400, 2)), 0);
        // Half of the time another job had its processing elements.
        assert_eq!(used(JobFacts { ran_s: 50, suspended_s: 50, ..job("ada", 100, 200, 4) }), 200);
        assert_eq!(used(JobFacts { ended: None, ..job("ada", 190, 190, 1) }), 10);
    }

    #[test]
    fn reports_have_the_form_of_sreport() {
        let show = Show::new(TimeZone::UTC, at(1_000_000), "lab");
        let jobs = [job("ada", 0, 3_600, 1), job("bob", 0, 7_200, 1)];
        let report = Report {
            period: Period { start: at(0), end: at(86_400) },
            unit: TimeUnit::Minutes,
            cpus: 4,
            jobs: &jobs,
            proper_names: &|user| user.to_uppercase(),
            show: &show,
        };
        let form = Form::Parsable { delimiter: "|".to_owned(), trailing: false };
        assert_eq!(
            report.utilization().text(true, &form),
            "Cluster|Allocated|Down|PLND Down|Idle|Planned|Reported\nlab|180|0|0|5580|0|5760\n"
        );
        assert_eq!(report.top(1).text(false, &form), "lab|bob|BOB|physics|120|0\n");
        assert_eq!(
            report.by_account().text(false, &form),
            "lab|physics|||180|0\nlab|physics|ada|ADA|60|0\nlab|physics|bob|BOB|120|0\n"
        );
        let title = report.top_title(10);
        assert!(
            title.contains("Top 10 Users 1970-01-01T00:00:00 - 1970-01-01T23:59:59 (86400 secs)")
        );
        assert_eq!(TimeUnit::named("per"), Some(TimeUnit::Percent));
        assert_eq!(TimeUnit::Percent.text(1, 3), "33.33%");
    }
}
