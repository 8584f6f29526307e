//! The environment of a job, which thousands of jobs of one shell have in common.

use crate::OsBytes;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// Most environments remembered for sharing: more than the number of users that submit thousands of
/// jobs at the same time.
const REMEMBERED: usize = 64;

/// A variable of a job's environment: letters and digits that the manager draws when it starts.
/// Together with the job's number they distinguish the job from all jobs of other clusters. Ranks
/// do not get the variable.
pub const MPI_SPACE_VARIABLE: &str = "STORM_MPI_SPACE";

/// Names and values, in the order in which the user's system gave them. Clones share
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(Arc<[(OsBytes, OsBytes)]>);

impl Environment {
    /// This environment with a variable set to this value.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Environment {
        let name = OsBytes::from(name);
        let others = self.0.iter().filter(|(own, _)| *own != name).cloned();
        others.chain([(name.clone(), OsBytes::from(value))]).collect()
    }

    /// Bytes of all names and values together.
    pub fn text_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.as_bytes().len() + value.as_bytes().len()).sum()
    }
}

impl Deref for Environment {
    type Target = [(OsBytes, OsBytes)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<Vec<(OsBytes, OsBytes)>> for Environment {
    fn from(variables: Vec<(OsBytes, OsBytes)>) -> Environment {
        Environment(variables.into())
    }
}

impl FromIterator<(OsBytes, OsBytes)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsBytes, OsBytes)>>(variables: I) -> Environment {
        Environment(variables.into_iter().collect())
    }
}

/// The latest environments that were seen, so that equal ones are kept once: an
/// environment is most of what a queued job takes.
#[derive(Debug, Default)]
pub struct RecentEnvironments {
    /// The latest first.
    latest: VecDeque<Environment>,
}

impl RecentEnvironments {
    /// The one equal to `environment` that is remembered, which is `environment`
    /// itself if there was none.
    pub fn shared(&mut self, environment: &Environment) -> Environment {
        let known = self.latest.iter().position(|known| known == environment);
        let shared = known
            .and_then(|index| self.latest.remove(index))
            .unwrap_or_else(|| environment.clone());
        self.latest.push_front(shared.clone());
        self.latest.truncate(REMEMBERED);
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Environment {
        [(OsBytes::from("HOME"), OsBytes::from(value))].into_iter().collect()
    }

    #[test]
    fn equal_ones_are_kept_once_and_few_are_remembered() {
        let mut recent = RecentEnvironments::default();
        let first = recent.shared(&of("/root"));
        assert!(Arc::ptr_eq(&recent.shared(&of("/root")).0, &first.0));
        for user in 0..REMEMBERED {
            recent.shared(&of(&format!("/home/{user}")));
        }
        assert!(!Arc::ptr_eq(&recent.shared(&of("/root")).0, &first.0));
        assert_eq!(recent.latest.len(), REMEMBERED);
    }

    #[test]
    fn a_variable_is_there_once_with_its_last_value() {
        let twice = of("/root").with("SHELL", "sh").with("HOME", "/home");
        let values = [("SHELL", "sh"), ("HOME", "/home")];
        assert_eq!(*twice, values.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn it_looks_like_a_list_to_whoever_reads_it() {
        let json = serde_json::to_string(&of("/root")).expect("encodes");
        assert_eq!(json, r#"[["HOME","/root"]]"#);
        assert_eq!(serde_json::from_str::<Environment>(&json).expect("decodes"), of("/root"));
    }
}
