//! Two users with jobs that always wait. Under Fair Tree over decayed usage, each user approaches
//! the part that the user's shares give, for any earlier usage and any length of the jobs.

use std::time::Duration;

use storm_sched::policies::Fcfs;
use storm_sched::priority::{Account, Factors, HalfLife, Share, Usage, Weights};
use storm_sched::{Action, Event, JobId, JobRequest, Machine, Policy, SchedTime};

const PES: u32 = 4;
const HALF_LIFE_S: u64 = 100_000;
/// The number of jobs of each user that wait at any time.
const BACKLOG: u64 = 3;

struct User {
    uid: u32,
    shares: u32,
    run_s: u64,
    usage: Usage,
}

/// A partition under FCFS whose queue is ordered by fair share alone.
struct Site {
    policy: Fcfs,
    users: Vec<User>,
    half_life: HalfLife,
    submitted: u64,
}

impl Site {
    fn new(users: Vec<User>) -> Self {
        let policy = Fcfs::new(Machine::uniform(PES, 1).unwrap());
        let half_life = HalfLife::new(Duration::from_secs(HALF_LIFE_S)).unwrap();
        Self { policy, users, half_life, submitted: 0 }
    }

    fn user_of(&self, job: JobId) -> usize {
        job.0 as usize % self.users.len()
    }

    /// Runs for that many half-lives, and returns the decayed usage of each user.
    fn run(&mut self, half_lives: u64) -> Vec<f64> {
        let mut now_s = 0;
        for _ in 0..BACKLOG * self.users.len() as u64 {
            let user = (self.submitted + 1) as usize % self.users.len();
            self.submit(now_s, user);
        }
        let mut running = self.policy.running()[0];
        while now_s < half_lives * HALF_LIFE_S {
            let user = self.user_of(running);
            let User { run_s, usage, .. } = &mut self.users[user];
            now_s += *run_s;
            let pe_s = (*run_s * u64::from(PES)) as f64;
            usage.charge(SchedTime::from_secs(now_s), pe_s, self.half_life);
            self.prioritise(now_s);
            let actions = self.policy.handle(SchedTime::from_secs(now_s), Event::Finished(running));
            let started = actions.iter().find_map(|action| match action {
                Action::Start { job, .. } => Some(*job),
                _ => None,
            });
            running = started.expect("jobs always wait");
            let user = self.user_of(running);
            self.submit(now_s, user);
        }
        let now = SchedTime::from_secs(now_s);
        self.users.iter().map(|user| user.usage.pe_s_at(now, self.half_life)).collect()
    }

    fn submit(&mut self, now_s: u64, user: usize) {
        self.submitted += 1;
        while self.user_of(JobId(self.submitted)) != user {
            self.submitted += 1;
        }
        let request = JobRequest::new(JobId(self.submitted), PES);
        self.policy.handle(SchedTime::from_secs(now_s), Event::Submit(request));
        self.prioritise(now_s);
    }

    fn prioritise(&mut self, now_s: u64) {
        let now = SchedTime::from_secs(now_s);
        let share = |user: &User| Share {
            uid: user.uid,
            shares: user.shares,
            usage_pe_s: user.usage.pe_s_at(now, self.half_life),
        };
        let users = self.users.iter().map(share).collect();
        let ranked = Account { users, ..Account::default() }.fair_factors();
        let weights = Weights { fair_share: 1_000, ..Weights::default() };
        for job in self.policy.pending() {
            let uid = self.users[self.user_of(job)].uid;
            let fair_share = ranked.iter().find(|ranked| ranked.uid == uid).unwrap().factor;
            let pes = PES.try_into().unwrap();
            let factors = Factors {
                waited: Duration::ZERO,
                pes: PES,
                partition_pes: pes,
                fair_share,
                qos: 0.0,
                partition: 0.0,
                site: 0,
                nice: 0,
            };
            let priority = weights.priority(&factors);
            self.policy.handle(now, Event::Prioritise { job, priority });
        }
    }
}

fn user(uid: u32, shares: u32, run_s: u64, used_pe_s: f64) -> User {
    let mut usage = Usage::default();
    usage.charge(SchedTime::ZERO, used_pe_s, HalfLife::default());
    User { uid, shares, run_s, usage }
}

#[test]
fn two_equal_users_have_equal_parts_after_five_half_lives() {
    // The second user has jobs four times as long, and has used a week of the machine.
    let mut site = Site::new(vec![user(1, 1, 500, 0.0), user(2, 1, 2_000, 400_000.0)]);
    let used = site.run(5);
    let part = used[0] / (used[0] + used[1]);
    assert!((part - 0.5).abs() < 0.025, "the first has {part} of {used:?}");
}

#[test]
fn users_converge_to_unequal_shares() {
    let mut site = Site::new(vec![user(1, 1, 700, 0.0), user(2, 3, 900, 0.0)]);
    let used = site.run(5);
    let part = used[1] / (used[0] + used[1]);
    assert!((part - 0.75).abs() < 0.025, "the second has {part} of {used:?}");
}
