//! The features that a job demands of its nodes, in the form of Slurm's `--constraint`.
//!
//! `a&b` is a node with both features, `a|b` a node with either; `&` binds closer. Every node of a
//! job is checked by itself, so a job with `a|b` may get nodes of both kinds. Slurm's counts
//! (`a*4`) and matching alternatives (`[a|b]`) are refused with an error that names them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most features that one constraint may name. It limits the cost of checking a request.
pub const MAX_CONSTRAINT_FEATURES: usize = 64;

/// Alternatives. Each is a list of features that a node must have together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Constraint {
    alternatives: Vec<Vec<String>>,
}

/// The reason why a text is not a constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// A feature is missing between two signs or at an end.
    #[error("a feature is missing in {text:?}: write features as gpu&fast or ib|opa")]
    NoFeature {
        /// The text that was given.
        text: String,
    },
    /// The name of a feature has a character that it may not have.
    #[error(
        "{feature:?} is not a feature: names have letters, digits, '_', '-', '.', ':' and '=', and \
         are joined by & (both) and | (either), without brackets or counts"
    )]
    Name {
        /// The name that was given.
        feature: String,
    },
    /// The constraint names more than [`MAX_CONSTRAINT_FEATURES`].
    #[error("a constraint names at most {MAX_CONSTRAINT_FEATURES} features")]
    TooMany,
}

impl Constraint {
    /// Whether a node with these features meets the constraint.
    #[must_use]
    pub fn is_met_by(&self, features: &[String]) -> bool {
        let has = |wanted: &String| features.contains(wanted);
        self.alternatives.iter().any(|together| together.iter().all(has))
    }

    /// Every feature of the constraint, once each, in order of appearance.
    #[must_use]
    pub fn features(&self) -> Vec<&str> {
        let mut named = Vec::new();
        for feature in self.alternatives.iter().flatten() {
            if !named.contains(&feature.as_str()) {
                named.push(feature.as_str());
            }
        }
        named
    }
}

/// Whether a text can be the name of a feature.
#[must_use]
pub fn is_feature_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:=".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, ConstraintError> {
        let mut named = 0;
        let mut feature = |part: &str| {
            let part = part.trim();
            named += 1;
            if part.is_empty() {
                Err(ConstraintError::NoFeature { text: text.to_owned() })
            } else if !is_feature_name(part) {
                Err(ConstraintError::Name { feature: part.to_owned() })
            } else if named > MAX_CONSTRAINT_FEATURES {
                Err(ConstraintError::TooMany)
            } else {
                Ok(part.to_owned())
            }
        };
        let mut together = |part: &str| part.split('&').map(&mut feature).collect();
        let alternatives = text.split('|').map(&mut together).collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }
}

impl TryFrom<String> for Constraint {
    type Error = ConstraintError;

    fn try_from(text: String) -> Result<Self, ConstraintError> {
        text.parse()
    }
}

impl From<Constraint> for String {
    fn from(constraint: Constraint) -> Self {
        constraint.to_string()
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alternatives: Vec<String> =
            self.alternatives.iter().map(|together| together.join("&")).collect();
        f.write_str(&alternatives.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(constraint: &str, features: &[&str]) -> bool {
        let features: Vec<String> = features.iter().map(|&feature| feature.to_owned()).collect();
        constraint.parse::<Constraint>().unwrap().is_met_by(&features)
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(met("gpu", &["big", "gpu"]) && !met("gpu", &["big"]) && !met("gpu", &[]));
        assert!(met("gpu&big", &["big", "gpu"]) && !met("gpu&big", &["gpu"]));
        assert!(met("gpu|big", &["big"]) && !met("gpu|big", &["small"]));
        assert!(met("a&b|c", &["c"]) && met("a&b|c", &["a", "b"]) && !met("a&b|c", &["b"]));
        assert!(!met("gpu", &["gpus"]), "a feature is a whole name");
    }

    #[test]
    fn a_constraint_is_written_as_it_is_read() {
        let constraint: Constraint = " a & b | c ".parse().unwrap();
        assert_eq!(constraint.to_string(), "a&b|c");
        assert_eq!(constraint.features(), ["a", "b", "c"]);
        assert_eq!(constraint.to_string().parse(), Ok(constraint));
    }

    #[test]
    fn malformed_constraints_are_refused_with_a_remedy() {
        let error = |text: &str| text.parse::<Constraint>().unwrap_err().to_string();
        for text in ["", "a&", "|a", "a||b"] {
            assert!(error(text).contains("a feature is missing"), "{text}");
        }
        for text in ["[a|b]", "a*4", "(a|b)&c", "a b"] {
            assert!(error(text).contains("without brackets or counts"), "{text}");
        }
        let many = vec!["a"; MAX_CONSTRAINT_FEATURES + 1].join("|");
        assert!(error(&many).contains("at most 64 features"));
    }
}
