//! The bytes of the manager's memory, and of its journal, that each user's unfinished jobs take:
//! their arguments, lists of files, environments and dependencies. The jobs of an array share
//! theirs; the jobs of a shell share its environment.

use std::collections::HashMap;
use std::ptr::from_ref;
use std::rc::Rc;
use storm_rm::{Environment, JobSpec, Needs};

/// The limit per user: ten thousand jobs of 6 KiB each that share an environment, or three hundred
/// of the largest possible jobs.
pub(in crate::manager) const MAX_BYTES_PER_USER: u64 = 64 << 20;

/// For each user, the bytes of all unfinished jobs; shared parts count once.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    users: HashMap<u32, u64>,
    jobs: HashMap<u32, usize>,
    /// By user and address, which stays the same while a job has the part.
    parts: HashMap<(u32, usize), Held>,
}

/// A part that several jobs share.
#[derive(Debug, Default)]
struct Held {
    jobs: u32,
    /// The specification that the finished jobs among them have instead.
    over: Option<Rc<JobSpec>>,
}

impl HeldBytes {
    /// Adds a job.
    pub(super) fn add(&mut self, spec: &JobSpec) {
        let user = spec.owner.uid;
        *self.jobs.entry(user).or_default() += 1;
        for part in Part::ALL {
            let held = self.parts.entry((user, part.place(spec))).or_default();
            held.jobs += 1;
            if held.jobs == 1 {
                *self.users.entry(user).or_default() += part.bytes(spec);
            }
        }
    }

    /// A job is over. Returns the specification that it keeps: everything that users can still
    /// request, without the environment. The jobs of an array share the result too.
    pub(super) fn remove(&mut self, spec: &JobSpec) -> Rc<JobSpec> {
        let place = (spec.owner.uid, Part::Specification.place(spec));
        let without = || Rc::new(over(spec));
        let over = match self.parts.get_mut(&place) {
            Some(held) => held.over.get_or_insert_with(without).clone(),
            None => without(),
        };
        Part::ALL.into_iter().for_each(|part| self.remove_part(spec, part));
        match self.jobs_of(spec.owner.uid).saturating_sub(1) {
            0 => drop(self.jobs.remove(&spec.owner.uid)),
            left => drop(self.jobs.insert(spec.owner.uid, left)),
        }
        over
    }

    fn remove_part(&mut self, spec: &JobSpec, part: Part) {
        let user = spec.owner.uid;
        let place = (user, part.place(spec));
        let Some(held) = self.parts.get_mut(&place) else { return };
        held.jobs -= 1;
        if held.jobs > 0 {
            return;
        }
        self.parts.remove(&place);
        let held = self.users.get(&user).copied().unwrap_or(0);
        match held.saturating_sub(part.bytes(spec)) {
            0 => drop(self.users.remove(&user)),
            left => drop(self.users.insert(user, left)),
        }
    }

    /// How many jobs of the user are not over.
    pub(super) fn jobs_of(&self, user: u32) -> usize {
        self.jobs.get(&user).copied().unwrap_or(0)
    }

    /// The bytes that the user's jobs would take with one more of this specification.
    pub(super) fn with(&self, spec: &JobSpec) -> u64 {
        let user = spec.owner.uid;
        let is_new = |part: &Part| !self.parts.contains_key(&(user, part.place(spec)));
        let new: u64 = Part::ALL.into_iter().filter(is_new).map(|part| part.bytes(spec)).sum();
        self.users.get(&user).copied().unwrap_or(0) + new
    }

    /// The bytes that the user's jobs would take if one had the specification `after` instead.
    pub(super) fn with_changed(&self, before: &JobSpec, after: &JobSpec) -> u64 {
        let user = before.owner.uid;
        let leaves = |part: &Part| {
            let place = part.place(before);
            let is_last = self.parts.get(&(user, place)).is_some_and(|held| held.jobs == 1);
            is_last && part.place(after) != place
        };
        let freed: u64 = Part::ALL.into_iter().filter(leaves).map(|part| part.bytes(before)).sum();
        self.with(after).saturating_sub(freed)
    }
}

/// The parts that jobs may share.
#[derive(Clone, Copy)]
enum Part {
    /// The specification without its environment, which the jobs of an array share.
    Specification,
    /// The environment, which the jobs of a shell share.
    Environment,
}

impl Part {
    const ALL: [Part; 2] = [Part::Specification, Part::Environment];

    /// The address of the part.
    fn place(self, spec: &JobSpec) -> usize {
        match self {
            Part::Specification => from_ref(spec).addr(),
            Part::Environment => spec.step.env.as_ptr().addr(),
        }
    }

    /// The size of the part.
    fn bytes(self, spec: &JobSpec) -> u64 {
        let variables = &spec.step.env;
        let env = variables.text_bytes() + size_of_val(&**variables);
        let bytes = match self {
            Part::Environment => env,
            Part::Specification => {
                // The encoded length, which includes the length of each text.
                let all = postcard::to_stdvec(spec).map_or(usize::MAX, |encoded| encoded.len());
                let all = size_of::<JobSpec>() + all.saturating_sub(variables.text_bytes());
                all.saturating_add(awaited_bytes(&spec.needs))
            }
        };
        bytes as u64
    }
}

/// Bytes of the manager's memory per condition and job. The bytes are for the job that is waited
/// for, the jobs that wait, and the events that the waiting job has received.
const CONDITION_BYTES: u64 = 128;
/// The most conditions that are remembered of a finished job, to be shown.
const REMEMBERED_CONDITIONS: usize = 1024;

/// Bytes in addition to the specification, for its jobs to receive events of other jobs.
fn awaited_bytes(needs: &Needs) -> usize {
    let conditions = needs.dependency.as_ref().map_or(0, |needed| needed.conditions.len());
    let jobs = needs.array.as_ref().and_then(|array| array.extent()).map_or(1, |all| all.count);
    let bytes = (conditions as u64).saturating_mul(jobs).saturating_mul(CONDITION_BYTES);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The part of a specification that is kept when its job is over.
fn over(spec: &JobSpec) -> JobSpec {
    let mut spec = spec.clone();
    spec.step.env = Environment::default();
    if let Some(dependency) = &mut spec.needs.dependency {
        dependency.conditions.truncate(REMEMBERED_CONDITIONS);
        dependency.conditions.shrink_to_fit();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::model::model_spec;

    const KIB: usize = 1024;

    fn spec(env: &Environment, user: u32, argument_bytes: usize) -> Rc<JobSpec> {
        let mut spec = model_spec();
        spec.owner.uid = user;
        spec.step.env = env.clone();
        spec.step.argv.push("x".repeat(argument_bytes).into());
        Rc::new(spec)
    }

    fn kib(held: &HeldBytes, user: u32) -> u64 {
        held.users.get(&user).map_or(0, |bytes| bytes / KIB as u64)
    }

    #[test]
    fn what_jobs_have_in_common_counts_once_for_each_user_until_the_last_is_over() {
        let env = Environment::default().with("LARGE", &"y".repeat(100 * KIB));
        let (one, other, strangers) = (spec(&env, 1, 0), spec(&env, 1, 10 * KIB), spec(&env, 2, 0));
        let mut held = HeldBytes::default();
        assert_eq!(held.with(&one) / KIB as u64, 100);
        // Two jobs of an array.
        held.add(&one);
        held.add(&one);
        held.add(&other);
        held.add(&strangers);
        assert_eq!([1, 2].map(|user| kib(&held, user)), [111, 100]);
        assert_eq!([1, 2, 3].map(|user| held.jobs_of(user)), [3, 1, 0]);
        assert_eq!(held.with(&other), held.users[&1], "another task of it takes nothing");
        let over = held.remove(&one);
        assert_eq!(kib(&held, 1), 111);
        assert_eq!((&over.step.env, &over.step.argv), (&Environment::default(), &one.step.argv));
        held.remove(&other);
        assert_eq!(kib(&held, 1), 100);
        assert!(Rc::ptr_eq(&over, &held.remove(&one)), "one for the array");
        held.remove(&strangers);
        assert!(held.users.is_empty() && held.parts.is_empty() && held.jobs.is_empty());
        held.remove(&one);
    }
}
