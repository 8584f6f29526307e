//! Needs of waiting jobs that the configuration does not meet: a partition, nodes of some kind, an
//! account, a quality of service, files in the spool. A job with unmet needs waits until a manager
//! starts whose configuration meets its needs (`docs/decisions/0132`).
//!
//! New submissions with unmet needs are refused in [`super::admission`].

use super::Core;
use super::admission::request_of;
use super::jobs::Unmet;
use crate::DEFAULT_ACCOUNT;
use crate::api::Peer;
use crate::job::{JobRecord, Phase};
use crate::service_config::NamedIn;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use storm_primitives::Instant;
use storm_rm::{ContentHash, JobId, JobSpec};

impl Core {
    /// Records the unmet needs of a former manager's jobs. Running jobs are included, since they
    /// may have to wait again. The log gets one line per need.
    pub(super) fn note_unmet(&mut self) {
        let goes_on = self.jobs.values().filter(|record| !matches!(record.phase, Phase::Ended(_)));
        // The jobs of an array share their specification.
        let mut last: Option<(Rc<JobSpec>, Option<Unmet>)> = None;
        let mut unmet = BTreeMap::new();
        for record in goes_on {
            let known = last.take().filter(|(spec, _)| Rc::ptr_eq(spec, &record.spec));
            let (spec, placeless) =
                known.unwrap_or_else(|| (record.spec.clone(), self.lacks_place(record)));
            let lack = placeless.clone().or_else(|| self.lacks_service(record));
            last = Some((spec, placeless));
            unmet.extend(lack.map(|lack| (record.id, lack)));
        }
        let mut waiting: BTreeMap<&Unmet, u32> = BTreeMap::new();
        for (_, lack) in unmet.iter().filter(|(job, _)| self.jobs[job].phase == Phase::Pending) {
            *waiting.entry(lack).or_default() += 1;
        }
        for (lack, jobs) in waiting {
            warn_of(lack, jobs);
        }
        self.jobs.set_unmet(unmet);
    }

    /// The partition that a job lacks, or the lack of its partition.
    fn lacks_place(&self, record: &JobRecord) -> Option<Unmet> {
        let Some(id) = self.partitions.id_of(&record.partition) else {
            return Some(Unmet::Partition(record.partition.clone()));
        };
        let machine = self.partitions[id].policy().machine();
        let request = request_of(record.id, &record.spec);
        if let Err(why) = storm_sched::feasible(machine, &request) {
            let partition = record.partition.clone();
            return Some(Unmet::Nodes { partition, why: why.to_string() });
        }
        let too_large = self.config.check_size(&record.spec).err()?;
        Some(Unmet::Room { why: too_large.why.unwrap_or(too_large.message) })
    }

    fn lacks_service(&self, record: &JobRecord) -> Option<Unmet> {
        let account = record.service.account.as_deref();
        account
            .and_then(|name| self.lacks_account(record, name))
            .or_else(|| self.config.lacks_qos(record, record.service.qos.as_deref()?))
    }

    fn lacks_account(&self, record: &JobRecord, name: &str) -> Option<Unmet> {
        if !self.priorities.knows_account(name) {
            // Without a default account, the account of users without one has this name.
            return (name != DEFAULT_ACCOUNT).then(|| Unmet::Account(name.to_owned()));
        }
        let users = self.config.unknown_users_of(&NamedIn::Account(name.to_owned()))?;
        let peer = owner_of(record);
        let may = self.is_admin(peer) || self.priorities.accounts_of(peer.uid).contains(&name);
        (!may).then(|| Unmet::AccountUsers { account: name.to_owned(), users })
    }

    /// A user that the configuration names is now known to the host.
    pub fn user_known(&mut self, now: Instant, name: &str, uid: u32) {
        for (account, shares) in self.config.learn_user(name, uid) {
            self.priorities.add_user(&account, uid, shares);
        }
        tracing::info!(name, uid, "the host now knows a user of the configuration");
        self.look_again_for_users(now);
    }

    /// Jobs may continue whose owners were unknown.
    fn look_again_for_users(&mut self, now: Instant) {
        let of_users =
            |lack: &Unmet| matches!(lack, Unmet::AccountUsers { .. } | Unmet::QosUsers { .. });
        let unmet = self.jobs.needs().unmet().filter(|(_, lack)| of_users(lack));
        let jobs: Vec<JobId> = unmet.map(|(job, _)| job).collect();
        self.together(now, |core| {
            for job in jobs {
                let lack = core.jobs.get(&job).and_then(|record| core.lacks_service(record));
                match lack {
                    Some(lack) => core.jobs.lack(job, lack),
                    None => {
                        core.jobs.meet(job);
                        core.reconsider(now, job);
                    }
                }
            }
        });
    }

    /// The terms of a waiting job have changed: it may lack something else now, or nothing.
    pub(super) fn look_again_with_new_terms(&mut self, job: JobId) {
        match self.jobs.needs().unmet_of(job) {
            // Other terms bring no files.
            None | Some(Unmet::Files) => return,
            Some(
                Unmet::Partition(_)
                | Unmet::Nodes { .. }
                | Unmet::Room { .. }
                | Unmet::Account(_)
                | Unmet::Qos(_)
                | Unmet::AccountUsers { .. }
                | Unmet::QosUsers { .. },
            ) => {}
        }
        let Some(record) = self.jobs.get(&job) else { return };
        match self.lacks_place(record).or_else(|| self.lacks_service(record)) {
            Some(lack) => self.jobs.lack(job, lack),
            None => self.jobs.meet(job),
        }
    }

    /// The contents `missing`, by user, are needed but not in the spool: waiting jobs that need
    /// them continue waiting.
    pub fn contents_missing(&mut self, now: Instant, missing: &HashSet<(u32, ContentHash)>) {
        let lacks = |record: &&JobRecord| {
            let uid = record.spec.owner.uid;
            let mut files = super::scheduling::files_of(&record.spec).into_iter();
            record.phase == Phase::Pending && files.any(|file| missing.contains(&(uid, file.hash)))
        };
        let jobs: Vec<JobId> = self.jobs.values().filter(lacks).map(|record| record.id).collect();
        if jobs.is_empty() {
            return;
        }
        warn_of(&Unmet::Files, jobs.len() as u32);
        // The last first: none may start because another leaves.
        self.together(now, |core| {
            for job in jobs.into_iter().rev() {
                core.jobs.lack_files(job);
                core.leave(now, job);
            }
        });
    }

    /// A user has sent files: jobs of the same user that lack only these may continue.
    pub(super) fn contents_sent(&mut self, now: Instant, uid: u32, spec: &JobSpec) {
        if !self.jobs.needs().unmet().any(|(_, lack)| *lack == Unmet::Files) {
            return;
        }
        let sent: HashSet<ContentHash> =
            super::scheduling::files_of(spec).into_iter().map(|file| file.hash).collect();
        let lacking = self.jobs.needs().unmet().filter(|(_, lack)| **lack == Unmet::Files);
        let whole = |job: &JobId| {
            self.jobs.get(job).is_some_and(|record| {
                let files = super::scheduling::files_of(&record.spec);
                record.spec.owner.uid == uid && files.iter().all(|file| sent.contains(&file.hash))
            })
        };
        let jobs: Vec<JobId> = lacking.map(|(job, _)| job).filter(whole).collect();
        for job in jobs {
            self.jobs.meet(job);
            self.reconsider(now, job);
        }
    }
}

fn owner_of(record: &JobRecord) -> Peer {
    Peer { uid: record.spec.owner.uid, gid: record.spec.owner.gid, pid: 0, by_door: false }
}

fn warn_of(lack: &Unmet, jobs: u32) {
    let said = lack.to_string();
    match lack {
        Unmet::Partition(partition) => {
            tracing::warn!(%partition, jobs, "jobs wait for a partition that is not configured");
        }
        Unmet::Nodes { partition, why } => {
            tracing::warn!(%partition, jobs, why, "jobs wait, and their partition cannot run them");
        }
        Unmet::Account(account) => {
            tracing::warn!(%account, jobs, "jobs wait for an account that is not configured");
        }
        Unmet::Qos(qos) => {
            tracing::warn!(%qos, jobs, "jobs wait for a quality of service that is not configured");
        }
        Unmet::AccountUsers { .. } | Unmet::QosUsers { .. } | Unmet::Room { .. } | Unmet::Files => {
            tracing::warn!(jobs, why = %said, "jobs wait for something that is missing");
        }
    }
}
