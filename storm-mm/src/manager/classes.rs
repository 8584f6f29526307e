//! How jobs share processors, in words. The words describe how their ranks are coscheduled, and the
//! class of each rank under flexible coscheduling with its reasons. They also name the facts that
//! are unknown for programs of other libraries ([decision
//! 0103](../../../docs/decisions/0103-classes-of-flexible-coscheduling.md)).

use super::Core;
use super::live::ToldClass;
use crate::api::ClassView;
use crate::job::JobRecord;
use std::collections::BTreeMap;
use storm_primitives::{Instant, NodeId};
use storm_rm::{
    Coscheduling, JobId, JobIncarnation, ProcessClass, ProcessFigures, Rank, RankClass, Witness,
};

impl Core {
    /// A node reports the classes of its ranks.
    pub(super) fn classes_told(
        &mut self,
        now: Instant,
        node: NodeId,
        (job, incarnation): (JobId, JobIncarnation),
        ranks: Vec<RankClass>,
    ) {
        let Some(record) = self.jobs.get(&job) else { return };
        let share = record.step_ranks().find(|share| share.node == node);
        let own = |told: &RankClass| share.as_ref().is_some_and(|share| share.has(told.rank));
        self.live.classes_told(now, (job, incarnation), ranks.into_iter().filter(own));
    }

    /// The reported classes of a running job's ranks, while its partition uses flexible
    /// coscheduling.
    fn classes(&self, record: &JobRecord) -> Option<&BTreeMap<Rank, ToldClass>> {
        let live = self.live.get(record.id)?;
        let partition = &self.partitions[live.partition()];
        (partition.coscheduling() == Coscheduling::Flexible).then_some(live.classes())
    }

    /// The class of a rank.
    pub(super) fn class_of(&self, record: &JobRecord, rank: Rank) -> Option<ClassView> {
        let known = self.classes(record)?.get(&rank)?;
        let RankClass { class, figures, .. } = known.told();
        Some(ClassView { class, since: self.wall(known.since()), figures })
    }

    /// The number of ranks in each class, and why.
    pub(super) fn classes_of(&self, record: &JobRecord) -> Option<String> {
        let groups = groups(self.classes(record)?, record.spec.ranks());
        Some(groups.iter().map(Group::in_short).collect::<Vec<_>>().join("; "))
    }

    /// How a job shares processors, where strobes are not all that switches between jobs.
    pub(super) fn sharing_of(&self, record: &JobRecord) -> Vec<String> {
        let partition = self.partitions.named(&record.partition);
        let shared = partition.and_then(|partition| sharing(partition.coscheduling()));
        let mut said: Vec<String> = shared.map(str::to_owned).into_iter().collect();
        if let Some(classes) = self.classes(record) {
            said.extend(groups(classes, record.spec.ranks()).iter().map(|group| {
                let since = group.since.map(|since| {
                    format!(" (since {})", self.wall(since).strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
                });
                format!("{}{}", group.at_length(), since.unwrap_or_default())
            }));
        }
        said
    }
}

/// Ranks of one class that were judged by the same means.
struct Group {
    class: ProcessClass,
    witness: Option<Witness>,
    ranks: u32,
    /// Means over the ranks.
    compute_us: u64,
    wait_us: u64,
    cpu_percent: u64,
    operations: u64,
    /// Since when the first of them has had its class; `None` for ranks that no node reported.
    since: Option<Instant>,
}

impl Group {
    fn of(class: ProcessClass, witness: Option<Witness>, members: &[&ToldClass]) -> Group {
        let figures = || members.iter().filter_map(|member| member.told().figures);
        let mean = |value: fn(ProcessFigures) -> u64| {
            figures().map(value).sum::<u64>() / (members.len() as u64).max(1)
        };
        Group {
            class,
            witness,
            ranks: members.len() as u32,
            compute_us: mean(|figures| u64::from(figures.compute_us)),
            wait_us: mean(|figures| u64::from(figures.wait_us)),
            cpu_percent: mean(|figures| u64::from(figures.cpu_percent)),
            operations: mean(|figures| u64::from(figures.operations)),
            since: members.iter().map(|member| member.since()).min(),
        }
    }

    fn in_short(&self) -> String {
        let Group { class, ranks, .. } = self;
        match self.witness {
            None => format!("{ranks} {class} (no reports yet)"),
            Some(Witness::Library) => {
                let (computes, waits) = (written(self.compute_us), written(self.wait_us));
                format!("{ranks} {class} (computing {computes}, then waiting {waits})")
            }
            Some(Witness::System) => {
                let percent = self.cpu_percent;
                format!("{ranks} {class} (from the use of processors alone: {percent} %)")
            }
        }
    }

    fn at_length(&self) -> String {
        let Group { class, ranks, operations, cpu_percent, .. } = self;
        let (compute, wait) = (written(self.compute_us), written(self.wait_us));
        let plural = if *ranks == 1 { "" } else { "s" };
        let told = format!("taken for {class} ({ranks} rank{plural})");
        let unseen = "how often it communicates cannot be seen, because its MPI, if it has one, \
                      does not report it; classified from the use of processors";
        match self.witness {
            None => format!(
                "{told}, as every job is at first and now and then again: not watched for long \
                 enough, or its nodes have not reported on it"
            ),
            Some(Witness::Library) if *operations == 0 => format!(
                "{told}: no communication of late, according to its library; {cpu_percent} % of \
                 the processors used"
            ),
            Some(Witness::Library) => format!(
                "{told}: computing {compute} between two communications and waiting {wait} in \
                 each, according to its library"
            ),
            Some(Witness::System) if *class == ProcessClass::NeedsCoscheduling => {
                format!("{told}: {unseen}, {cpu_percent} %: it computes or looks for messages")
            }
            Some(Witness::System) => format!(
                "{told}: {unseen}, {cpu_percent} %, for {compute} between two sleeps of {wait}"
            ),
        }
    }
}

/// The reported ranks, by class and by the source of their figures. The rest of the `procs` ranks
/// are one group without figures.
fn groups(classes: &BTreeMap<Rank, ToldClass>, procs: u32) -> Vec<Group> {
    let mut groups: BTreeMap<_, Vec<&ToldClass>> = BTreeMap::new();
    for told in classes.values() {
        let RankClass { class, figures, .. } = told.told();
        let witness = figures.map(|figures| figures.witness);
        groups.entry((class, witness)).or_default().push(told);
    }
    let told = u32::try_from(classes.len()).unwrap_or(u32::MAX);
    let group = |((class, witness), members): ((_, _), Vec<_>)| Group::of(class, witness, &members);
    let mut all: Vec<Group> = groups.into_iter().map(group).collect();
    if let Some(ranks) = procs.checked_sub(told).filter(|ranks| *ranks > 0) {
        all.insert(0, Group { ranks, ..Group::of(ProcessClass::default(), None, &[]) });
    }
    all
}

/// A time for people.
fn written(us: u64) -> String {
    if us < 1000 { format!("{us} us") } else { format!("{:.1} ms", us as f64 / 1e3) }
}

/// How jobs share processors where strobes are not all that switches between them, and the facts
/// about their ranks that are unknown.
fn sharing(coscheduling: Coscheduling) -> Option<&'static str> {
    match coscheduling {
        Coscheduling::Strobed => None,
        Coscheduling::Local => Some(
            "under local nothing is switched: the operating systems of its nodes divide the \
             processors among the jobs of all rows",
        ),
        Coscheduling::Implicit => Some(
            "under ics its ranks come to run together by how they wait: ranks of storm-mpi wait in \
             two phases, as its nodes measured; other MPI libraries are told to yield (Open MPI, \
             Intel MPI, MPICH from 4.2 on), but how long they look for messages first is not \
             known",
        ),
        Coscheduling::PeriodicBoost => Some(
            "under pb ranks of storm-mpi say when they wait, and are put first in turn when a \
             message has come; ranks of other MPI libraries do not say it, and are never put \
             first",
        ),
        Coscheduling::Flexible => Some(
            "under fcs ranks that communicate often and hardly wait (CS) have their slot to \
             themselves; ranks that communicate often but wait long (F) run first in their slot \
             and leave it while they wait; ranks that seldom communicate (DC) run in slots where \
             no other rank goes first",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rank: u32, class: ProcessClass, witness: Option<Witness>) -> (Rank, ToldClass) {
        let figures = witness.map(|witness| ProcessFigures {
            witness,
            operations: 10,
            compute_us: 5_000,
            wait_us: 20,
            cpu_percent: 97,
        });
        let told = RankClass { rank: Rank(rank), class, for_ms: 7, figures };
        (Rank(rank), ToldClass::new(told, Instant::from_nanos(9_000_000)))
    }

    #[test]
    fn ranks_are_counted_by_class_and_by_who_told_of_them() {
        use ProcessClass::{Frustrated, NeedsCoscheduling};
        let (library, system) = (Some(Witness::Library), Some(Witness::System));
        let classes = BTreeMap::from([
            told(0, NeedsCoscheduling, library),
            told(1, Frustrated, library),
            told(2, Frustrated, library),
            told(3, NeedsCoscheduling, system),
        ]);
        let groups = groups(&classes, 5);
        let short: Vec<String> = groups.iter().map(Group::in_short).collect();
        assert_eq!(
            short,
            [
                "1 CS (no reports yet)",
                "1 CS (computing 5.0 ms, then waiting 20 us)",
                "1 CS (from the use of processors alone: 97 %)",
                "2 F (computing 5.0 ms, then waiting 20 us)",
            ]
        );
        assert!(groups[2].at_length().contains("cannot be seen"), "{}", groups[2].at_length());
        assert_eq!(groups[3].since, Some(Instant::from_nanos(2_000_000)));
    }
}
