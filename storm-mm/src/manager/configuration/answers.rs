//! Answers that need only the configuration.

use super::Configuration;
use crate::api::{ApiError, ErrorCode, LogEntry};
use crate::job::JobRecord;
use crate::manager::jobs::{Unmet, without_dependency};
use crate::service_config::NamedIn;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use storm_rm::{ArrayError, ArraySpec, JobSpec};

/// Share of a heartbeat that a job's specification may take; the rest is for
/// the list of its nodes.
const SPEC_SHARE_PERCENT: usize = 75;

impl Configuration {
    /// Fails if a specification is too long for the message that launches the job.
    pub(in crate::manager) fn check_size(&self, spec: &JobSpec) -> Result<(), ApiError> {
        let limit = self.heartbeat_bytes * SPEC_SHARE_PERCENT / 100;
        // The encoded length counts, so that long lists of files or limits must fit as well.
        let spec = without_dependency(spec);
        let bytes = postcard::to_stdvec(&*spec).map_or(usize::MAX, |encoded| encoded.len());
        if bytes <= limit {
            return Ok(());
        }
        Err(ApiError::new(ErrorCode::TooLarge, "the job's arguments and environment are too large")
            .why(format!("its specification takes {bytes} bytes; {limit} are possible"))
            .hint("pass large data in a file (--bcast)"))
    }

    /// The number of jobs that an array makes, if the array is allowed.
    pub(in crate::manager) fn array_size(&self, array: &ArraySpec) -> Result<u64, ApiError> {
        let most = self.array_max;
        if most == 0 {
            let message = "this cluster takes no arrays of jobs";
            return Err(ApiError::new(ErrorCode::TooLarge, message)
                .hint("array-max is 0 in its configuration; submit the jobs one by one"));
        }
        let indices = array.indices(most).map_err(|why| {
            let code = match why {
                ArrayError::TooLarge { .. } => ErrorCode::TooLarge,
                ArrayError::Syntax(_) | ArrayError::Empty => ErrorCode::BadRequest,
            };
            ApiError::new(code, "the array cannot be submitted")
                .why(why.to_string())
                .hint(format!("an array has at most {most} jobs here (array-max)"))
        })?;
        Ok(indices.len() as u64)
    }

    /// Whether a user is among the named users; if none is named, all are.
    pub(in crate::manager) fn is_meant<'a>(
        &'a self,
        uids: &'a [u32],
        names: &'a [String],
    ) -> impl Fn(u32) -> bool + 'a {
        // Sets, since a client may name as many as fit into a line.
        let (uids, names) =
            (HashSet::<&u32>::from_iter(uids), HashSet::<&String>::from_iter(names));
        let all = uids.is_empty() && names.is_empty();
        // Each user is resolved once, and only if the walk meets a job of the user.
        let known = RefCell::new(HashMap::new());
        let is_named = move |uid| {
            let is_so = || (self.user_name)(uid).is_some_and(|own| names.contains(&own));
            !names.is_empty() && *known.borrow_mut().entry(uid).or_insert_with(is_so)
        };
        move |uid| all || uids.contains(&uid) || is_named(uid)
    }

    /// A job's log, with the names of users.
    pub(in crate::manager) fn log_of(&self, record: &JobRecord) -> Vec<LogEntry> {
        let named =
            |entry: &LogEntry| LogEntry { text: self.with_user_name(&entry.text), ..entry.clone() };
        record.log.iter().map(named).collect()
    }

    /// The quality of service of a job if the configuration does not have it for the job's user.
    pub(in crate::manager) fn lacks_qos(&self, record: &JobRecord, name: &str) -> Option<Unmet> {
        let Some(qos) = self.service.qos.iter().find(|qos| qos.name == name) else {
            return Some(Unmet::Qos(name.to_owned()));
        };
        let users = self.unknown_users_of(&NamedIn::Qos(name.to_owned()))?;
        let may = self.may_have(qos, record.spec.owner.uid, record.service.account.as_deref());
        (!may).then(|| Unmet::QosUsers { qos: name.to_owned(), users })
    }
}
