//! Real processes that are put behind others and brought back.

use super::*;
use crate::classes::LibraryReport;
use crate::job_classes::Counters;
use std::process::{Child, Command};
use storm_pl::{ProcessId, SignalFreezer};
use storm_rm::{JobId, JobIncarnation, StepRef};

const JOB: JobKey = JobKey { step: StepRef::program(JobId(1)), incarnation: JobIncarnation(1) };
const RANK: Rank = Rank(0);
/// `SCHED_OTHER` and `SCHED_IDLE`, as the kernel shows them.
const ORDINARY: &str = "0";
const BEHIND: &str = "5";

/// A process that leads a session, as ranks do.
pub(super) struct Sleeper(Child);

impl Sleeper {
    pub(super) fn new() -> Sleeper {
        let sleeper = Sleeper(Command::new("setsid").args(["sleep", "60"]).spawn().unwrap());
        let pid = nix::unistd::Pid::from_raw(sleeper.pid().0);
        while nix::unistd::getsid(Some(pid)).unwrap() != pid {
            std::thread::yield_now();
        }
        sleeper
    }

    pub(super) fn pid(&self) -> ProcessId {
        ProcessId(self.0.id() as i32)
    }

    /// The 41st word of `/proc/PID/stat` (proc(5)). The second word may contain spaces.
    fn policy(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().to_owned()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A job of one rank, in its slot, which is known not to care.
fn does_not_care(sleeper: &Sleeper) -> Job {
    let mut job = job_of(&[sleeper]);
    assert_eq!(job.classes.class(RANK), ProcessClass::DontCare);
    job.freezer = Arc::new(Freezer::Signal(SignalFreezer::new(sleeper.pid())));
    job
}

/// A job in its slot with these ranks; the first is known not to care.
pub(super) fn job_of(sleepers: &[&Sleeper]) -> Job {
    let ms = Duration::from_millis;
    let mut classes = JobClasses::new(ClassRules::default(), [RANK].into_iter(), ms(0));
    let counters = Counters { library: Some(LibraryReport::default()), ..Counters::default() };
    let counters = BTreeMap::from([(RANK, counters)]);
    for slot in 0..4 {
        classes.slot_begins(ms(100 * slot), &counters);
        classes.slot_ends(ms(100 * slot + 50), &counters);
    }
    let process = |sleeper: &&Sleeper| Arc::new(Process::of(sleeper.pid()).unwrap());
    Job {
        number: 1,
        page: None,
        freezer: Arc::new(Freezer::Signal(SignalFreezer::new(ProcessId(i32::MAX)))),
        first: RANK,
        ranks: (0..).map(Rank).zip(sleepers.iter().map(process)).collect(),
        classes,
        edge: None,
        in_slot: true,
        suspended: false,
        may_spin: true,
        may_yield: true,
        alone: false,
        looks: 0,
        frozen: false,
        behind: BTreeSet::new(),
        ways: BTreeMap::new(),
        touched: BTreeSet::new(),
    }
}

#[test]
fn nobody_runs_out_of_a_slot_before_being_behind_others_and_nobody_stays_there() {
    if boost::background_permitted().is_err() {
        eprintln!("SKIPPED: nobody can be put behind others here");
        return;
    }
    let sleeper = Sleeper::new();
    let flexible = Flexible::new(1, mpsc::channel(1).0);
    flexible.shared.lock().jobs.insert(JOB, does_not_care(&sleeper));
    let frozen = || flexible.shared.lock().jobs[&JOB].frozen;
    // The end of the slot changes no process, and stops the job since it is not behind others.
    let turned = flexible.turns().turn(&[JOB], &[]);
    assert_eq!(
        (turned.stop.as_ref(), frozen(), sleeper.policy().as_str()),
        ([JOB].as_slice(), true, ORDINARY)
    );
    drop(turned);
    assert_eq!(flexible.shared.lock().switching, 0);
    assert!(flexible.shared.lock().has_chores());
    chores::put(&flexible.shared);
    assert_eq!((frozen(), sleeper.policy().as_str()), (false, BEHIND));
    assert!(!flexible.shared.lock().has_chores());
    // The job is not stopped any more, since it is behind others.
    for begins in [true, false] {
        let keys = if begins { (vec![], vec![JOB]) } else { (vec![JOB], vec![]) };
        let turned = flexible.turns().turn(&keys.0, &keys.1);
        assert!(turned.stop.is_empty() && turned.resume.is_empty());
    }
    // The job becomes an ordinary process again before it is ended.
    flexible.forget(JOB);
    chores::put(&flexible.shared);
    assert_eq!(sleeper.policy(), ORDINARY);
    assert!(!flexible.shared.lock().has_chores());
}

#[test]
fn a_job_that_cannot_be_behind_others_is_stopped_out_of_its_slots() {
    let sleeper = Sleeper::new();
    let flexible = Flexible::new(1, mpsc::channel(1).0);
    let mut job = does_not_care(&sleeper);
    // Not permitted (EPERM).
    job.was_put(RANK, true, Err(std::io::Error::from_raw_os_error(1)));
    flexible.shared.lock().jobs.insert(JOB, job);
    assert!(!flexible.shared.lock().has_chores(), "it is not tried again");
    assert_eq!(*flexible.turns().turn(&[JOB], &[]).stop, [JOB]);
    chores::put(&flexible.shared);
    assert_eq!(sleeper.policy(), ORDINARY);
    assert_eq!(*flexible.turns().turn(&[], &[JOB]).resume, [JOB]);
}

/// A regression: the processes that such a rank had started ran out of the job's slots with their
/// full share.
#[test]
fn a_job_of_which_a_rank_starts_a_session_is_stopped_out_of_its_slots() {
    let sleeper = Sleeper::new();
    let mut job = does_not_care(&sleeper);
    job.was_put(RANK, true, Ok(()));
    job.in_slot = false;
    assert!(!job.is_to_be_frozen());
    job.cannot_yield(RANK, "it has started processes in sessions of their own");
    job.apply();
    assert!(job.frozen && !job.wanted(RANK).0, "it is an ordinary process in its slot");
}

/// A regression: the job was stopped but noted as running, so its last slot resumed nothing.
#[test]
fn a_slot_that_ends_twice_resumes_whom_a_rank_that_has_ended_kept_from_running() {
    let (one, other) = (Sleeper::new(), Sleeper::new());
    let flexible = Flexible::new(1, mpsc::channel(1).0);
    flexible.shared.lock().jobs.insert(JOB, job_of(&[&one, &other]));
    flexible.shared.lock().jobs.get_mut(&JOB).unwrap().was_put(RANK, true, Ok(()));
    assert_eq!(
        *flexible.turns().turn(&[JOB], &[]).stop,
        [JOB],
        "one of them is an ordinary process"
    );
    flexible.ended(JOB, Rank(1));
    let turned = flexible.turns().turn(&[JOB], &[]);
    assert_eq!((turned.stop.as_ref(), turned.resume.as_ref()), ([].as_slice(), [JOB].as_slice()));
}

#[test]
fn a_job_alone_on_its_node_is_behind_nobody_and_runs_out_of_its_slots() {
    if boost::background_permitted().is_err() {
        eprintln!("SKIPPED: nobody can be put behind others here");
        return;
    }
    let other = JobKey { step: StepRef::program(JobId(2)), incarnation: JobIncarnation(1) };
    let (sleeper, comer) = (Sleeper::new(), Sleeper::new());
    let flexible = Flexible::new(1, mpsc::channel(1).0);
    let does = |key: JobKey, job: Job| flexible.shared.settled().insert(key, job);
    let frozen = || flexible.shared.lock().jobs[&JOB].frozen;
    does(JOB, does_not_care(&sleeper));
    assert!(!flexible.shared.lock().has_chores(), "there is nobody that it could let by");
    let turned = flexible.turns().turn(&[JOB], &[]);
    assert!(turned.stop.is_empty() && !frozen());
    drop(turned);
    // Another job arrives: the first job is stopped before the new one runs, and continues behind
    // it.
    does(other, does_not_care(&comer));
    assert!(frozen());
    chores::put(&flexible.shared);
    assert_eq!((frozen(), sleeper.policy().as_str()), (false, BEHIND));
    flexible.forget(other);
    chores::put(&flexible.shared);
    assert_eq!((frozen(), sleeper.policy().as_str()), (false, ORDINARY));
}
