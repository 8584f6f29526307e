//! `scontrol update`: changes jobs, and drains nodes and has them take jobs again.

use super::asking::manager;
use super::complaint::Complaint;
use super::scontrol_jobs::{INVALID_JOB, each, in_slurms_words, named, parts, tell};
use crate::cli::DependencyArgument;
use crate::command::misunderstood::misunderstood;
use crate::command::naming::dependency;
use crate::failure::{EXIT_FAILED, Failure};
use std::time::Duration;
use storm_mm::api::{Client, JobChange, JobView, ManagerRequest, Reply};
use storm_rm::JobId;
use storm_slurm::options::{CommandLine, Length, seconds};

/// Slurm's name of the request in errors.
const REQUEST: &str = "slurm_update";
/// In Slurm, `Nice` without a value means 100.
const DEFAULT_NICE: i32 = 100;

/// Updates what the words `KEY=VALUE` name.
pub(super) async fn run(line: &CommandLine, words: &[&str]) -> Result<u8, Complaint> {
    let settings = settings(words)?;
    let has = |names: &[&str]| settings.iter().any(|setting| names.contains(&&*setting.key));
    match () {
        () if has(&["jobid", "job"]) => jobs(line, &settings).await,
        () if has(&["nodename", "node"]) => nodes(&settings).await,
        () if has(&["partitionname", "partition"]) && !has(&["jobname", "name"]) => {
            Err(Complaint::error("partitions are not changed by update")
                .and_told("`storm set-sched` and `storm set-quantum` change the policy and the quantum of one"))
        }
        () if has(&["reservationname", "reservation"]) => {
            Err(Complaint::error("reservations are not changed by update")
                .and_told("`storm reservation delete` and `storm reservation create` do that"))
        }
        () if has(&["jobname", "name"]) => jobs(line, &settings).await,
        () => Err(Complaint::plain(
            "No valid entity in update command\nInput line must include \"NodeName\", \
             \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"",
        )),
    }
}

/// One of the words behind `update`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Its name, in small letters.
    key: String,
    /// A sign before the `=` that makes the value relative: `TimeLimit+=10`.
    sign: Option<char>,
    value: String,
    /// The typed text.
    typed: String,
}

fn settings(words: &[&str]) -> Result<Vec<Setting>, Complaint> {
    let mut settings = Vec::with_capacity(words.len());
    // `update job 7 ...` names the job without a sign.
    let named = words.split_first().and_then(|(entity, rest)| {
        let entity = entity.to_ascii_lowercase();
        let is_entity = ["job", "jobid", "node", "nodename"].contains(&entity.as_str());
        let (value, rest) = rest.split_first()?;
        (is_entity && !value.contains('=')).then(|| (format!("{entity}={value}"), rest))
    });
    let (first, rest) = match named {
        Some((first, rest)) => (Some(first), rest),
        None => (None, words),
    };
    for word in first.iter().map(String::as_str).chain(rest.iter().copied()) {
        let (key, value) = match word.split_once('=') {
            Some(parts) => parts,
            None if word.eq_ignore_ascii_case("nice") => (word, ""),
            None => return Err(not_supported(word)),
        };
        let sign = key.chars().last().filter(|sign| ['+', '-'].contains(sign));
        settings.push(Setting {
            key: key.trim_end_matches(['+', '-']).to_ascii_lowercase(),
            sign,
            value: value.to_owned(),
            typed: word.to_owned(),
        });
    }
    Ok(settings)
}

fn not_supported(word: &str) -> Complaint {
    Complaint::plain(format!("Update of this parameter is not supported: {word}\nRequest aborted"))
}

/// How a time limit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewLimit {
    To(Length),
    LongerBy(u64),
    ShorterBy(u64),
}

/// The changes of jobs that the settings ask for.
#[derive(Debug, Default)]
struct Wanted {
    /// The words that name jobs.
    jobs: Vec<String>,
    change: JobChange,
    limit: Option<NewLimit>,
    dependency: Option<DependencyArgument>,
    /// A priority of 0 holds a job.
    hold: bool,
}

impl Wanted {
    fn of(settings: &[Setting]) -> Result<Wanted, Complaint> {
        let mut wanted = Wanted::default();
        // Without a number, the name chooses the jobs.
        let numbered = settings.iter().any(|one| ["jobid", "job"].contains(&&*one.key));
        for setting in settings {
            let change = &mut wanted.change;
            let value = || setting.value.clone();
            match setting.key.as_str() {
                "jobid" | "job" => wanted.jobs.extend(parts(&setting.value)),
                "jobname" | "name" if !numbered => wanted.jobs.push(format!("name={}", value())),
                "jobname" | "name" => change.name = Some(value()),
                "comment" => change.comment = Some(value()),
                "partition" | "partitionname" => change.partition = Some(value()),
                "nice" => change.nice = Some(nice(setting)?),
                "timelimit" => wanted.limit = Some(limit(setting)?),
                "dependency" if setting.value.is_empty() => change.no_dependency = true,
                "dependency" => {
                    let typed: DependencyArgument = setting
                        .value
                        .parse()
                        .map_err(|error| Complaint::error(format!("{}: {error}", setting.typed)))?;
                    wanted.dependency = Some(typed);
                }
                "priority" if setting.value == "0" => wanted.hold = true,
                "priority" => {
                    return Err(not_supported(&setting.typed)
                        .and_told("a priority is computed: Nice= lowers it"));
                }
                _ => return Err(not_supported(&setting.typed)),
            }
        }
        Ok(wanted)
    }

    /// The change of a job, whose time limit may change relatively.
    fn of_job(&self, job: &JobView) -> Result<JobChange, &'static str> {
        let mut change = self.change.clone();
        let to = |seconds: u64| Some(Duration::from_secs(seconds));
        match (self.limit, job.time_limit_s) {
            (None, _) => {}
            (Some(NewLimit::To(Length::Unlimited)), _) => change.no_time_limit = true,
            (Some(NewLimit::To(Length::Seconds(seconds))), _) => change.time_limit = to(seconds),
            (Some(_), None) => return Err("Invalid time limit specified: the job has none"),
            (Some(NewLimit::LongerBy(more)), Some(limit)) => {
                change.time_limit = to(limit.saturating_add(more));
            }
            (Some(NewLimit::ShorterBy(less)), Some(limit)) => {
                let left = limit.checked_sub(less).filter(|left| *left > 0);
                let left = left.ok_or("Invalid time limit specified: nothing would be left")?;
                change.time_limit = to(left);
            }
        }
        Ok(change)
    }
}

fn nice(setting: &Setting) -> Result<i32, Complaint> {
    if setting.value.is_empty() {
        return Ok(DEFAULT_NICE);
    }
    let wrong =
        || Complaint::error(format!("Invalid nice value, must be a number: {}", setting.value));
    setting.value.parse().map_err(|_| wrong())
}

fn limit(setting: &Setting) -> Result<NewLimit, Complaint> {
    let wrong = || Complaint::error(format!("Invalid TimeLimit: {}", setting.typed));
    // The sign may be before the `=` or behind it.
    let behind = setting.value.chars().next().filter(|sign| ['+', '-'].contains(sign));
    let is_word = setting.value == "-1";
    let (sign, text) = match (setting.sign, behind) {
        (Some(sign), _) => (Some(sign), setting.value.as_str()),
        (None, Some(sign)) if !is_word => (Some(sign), &setting.value[1..]),
        (None, _) => (None, setting.value.as_str()),
    };
    match (sign, seconds(text).ok_or_else(wrong)?) {
        (None, to) => Ok(NewLimit::To(to)),
        (Some('+'), Length::Seconds(more)) => Ok(NewLimit::LongerBy(more)),
        (Some(_), Length::Seconds(less)) => Ok(NewLimit::ShorterBy(less)),
        (Some(_), Length::Unlimited) => Err(wrong()),
    }
}

async fn jobs(line: &CommandLine, settings: &[Setting]) -> Result<u8, Complaint> {
    let mut wanted = Wanted::of(settings)?;
    let manager = manager()?;
    let mut client = manager.connect().await.map_err(Failure::from)?;
    if let Some(typed) = &wanted.dependency {
        wanted.change.dependency = Some(dependency(&mut client, typed).await?);
    }
    let quiet = line.has("quiet");
    let mut failed = false;
    for word in &wanted.jobs {
        let jobs = named(&mut client, &manager, word).await?;
        if jobs.is_empty() {
            tell(quiet, Some(REQUEST), word, INVALID_JOB);
            failed = true;
        }
        for (job, why) in update(&mut client, &jobs, &wanted).await? {
            tell(quiet, Some(REQUEST), &job.job_name(), &why);
            failed = true;
        }
    }
    Ok(if failed { EXIT_FAILED } else { 0 })
}

/// Changes jobs, and returns those that cannot be changed so, each with the reason. Jobs with the
/// same change are in one request: an array may have thousands, and is changed as a whole.
async fn update<'a>(
    client: &mut Client,
    jobs: &'a [JobView],
    wanted: &Wanted,
) -> Result<Vec<(&'a JobView, String)>, Complaint> {
    let mut failed = Vec::new();
    let mut alike: Vec<(JobChange, Vec<&JobView>)> = Vec::new();
    for job in jobs {
        match (wanted.of_job(job), alike.last_mut()) {
            (Err(why), _) => failed.push((job, why.to_owned())),
            (Ok(change), Some((same, group))) if *same == change => group.push(job),
            (Ok(change), _) => alike.push((change, vec![job])),
        }
    }
    for (change, mut group) in alike {
        if !change.is_empty() {
            let request = |jobs| ManagerRequest::Update { jobs, change: change.clone() };
            failed.extend(refused(client, &mut group, request).await?);
        }
        if wanted.hold {
            let request = |jobs| ManagerRequest::Hold { jobs };
            failed.extend(refused(client, &mut group, request).await?);
        }
    }
    Ok(failed)
}

/// Makes a request for jobs, and takes out of them those that are refused.
async fn refused<'a>(
    client: &mut Client,
    jobs: &mut Vec<&'a JobView>,
    request: impl Fn(Vec<JobId>) -> ManagerRequest,
) -> Result<Vec<(&'a JobView, String)>, Complaint> {
    let errors = each(client, jobs, request).await?;
    let mut refused = Vec::new();
    let mut kept = Vec::new();
    for (job, error) in std::mem::take(jobs).into_iter().zip(errors) {
        match error {
            Some(error) => refused.push((job, in_slurms_words(&error).to_owned())),
            None => kept.push(job),
        }
    }
    *jobs = kept;
    Ok(refused)
}

/// `update NodeName=n[1-4] State=DRAIN Reason=disk`, and `State=RESUME`.
async fn nodes(settings: &[Setting]) -> Result<u8, Complaint> {
    let (mut nodes, mut state, mut reason) = (String::new(), String::new(), String::new());
    for setting in settings {
        let value = setting.value.clone();
        match setting.key.as_str() {
            "nodename" | "node" => nodes = value,
            "state" => state = value.to_ascii_uppercase(),
            "reason" => reason = value,
            _ => return Err(not_supported(&setting.typed)),
        }
    }
    let request = match state.as_str() {
        "DRAIN" if reason.is_empty() => {
            return Err(Complaint::plain(
                "You must specify a reason when DOWNING or DRAINING a node. Request denied",
            ));
        }
        "DRAIN" => ManagerRequest::Drain { nodes, reason },
        "RESUME" | "UNDRAIN" => ManagerRequest::Resume { nodes },
        _ => {
            return Err(Complaint::error(format!("State={state} cannot be set"))
                .and_told("State=DRAIN with a Reason, and State=RESUME are there"));
        }
    };
    let mut client = manager()?.connect().await.map_err(Failure::from)?;
    match client.call(request).await {
        Ok(Reply::Ok) => Ok(0),
        Ok(other) => Err(misunderstood(&other).into()),
        Err(error) => {
            let failure = Failure::from(error);
            let why = match failure.code.as_str() {
                "not-permitted" => "Access/permission denied".to_owned(),
                _ => failure.message,
            };
            Err(Complaint::plain(format!("{REQUEST} error: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Result<Wanted, Complaint> {
        Wanted::of(&settings(words)?)
    }

    #[test]
    fn the_words_are_those_of_scontrol() {
        let asked = wanted(&["JobId=7,8_[1-2]", "TimeLimit=5", "Nice", "x"]);
        assert!(asked.is_err(), "each word has a sign");
        let asked = wanted(&["JobId=7,8_[1-2]", "TimeLimit=5", "Nice", "Name=a", "Comment="]);
        let asked = asked.expect("right");
        assert_eq!(asked.jobs, ["7", "8_[1-2]"]);
        assert_eq!(asked.limit, Some(NewLimit::To(Length::Seconds(300))));
        assert_eq!(asked.change.nice, Some(DEFAULT_NICE));
        assert_eq!(asked.change.name.as_deref(), Some("a"));
        assert_eq!(asked.change.comment.as_deref(), Some(""));
        let asked = wanted(&["job", "7", "Dependency=", "Priority=0"]).expect("right");
        assert!(asked.change.no_dependency && asked.hold);
        // Without a number the name chooses.
        let asked = wanted(&["JobName=a", "Partition=b"]).expect("right");
        assert_eq!(asked.jobs, ["name=a"]);
        assert_eq!(asked.change.name, None);
    }

    #[test]
    fn a_time_limit_changes_to_a_length_or_by_one() {
        let limit = |word: &str| wanted(&["JobId=7", word]).map(|wanted| wanted.limit);
        for (word, expected) in [
            ("TimeLimit=1:00:00", NewLimit::To(Length::Seconds(3600))),
            ("timelimit=UNLIMITED", NewLimit::To(Length::Unlimited)),
            ("TimeLimit=-1", NewLimit::To(Length::Unlimited)),
            ("TimeLimit+=10", NewLimit::LongerBy(600)),
            ("TimeLimit=+10", NewLimit::LongerBy(600)),
            ("TimeLimit-=1:30", NewLimit::ShorterBy(90)),
        ] {
            assert_eq!(limit(word), Ok(Some(expected)), "{word}");
        }
        assert!(limit("TimeLimit=soon").is_err());
        assert!(limit("TimeLimit+=UNLIMITED").is_err());
    }

    #[test]
    fn what_cannot_change_is_named() {
        for word in ["Account=a", "Priority=100", "NumNodes=2"] {
            let told = wanted(&["JobId=7", word]).expect_err("refused");
            let told = told.shown(storm_slurm::Verb::Scontrol);
            assert!(told.contains(word) && told.contains("Request aborted"), "{told}");
        }
    }
}
