//! The order of jobs in a listing (`--sort`).

use super::JOB_FIELDS;
use crate::view::{JobFacts, Show};
use std::cmp::Reverse;

/// Letters of fields, the most important first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<(char, bool)>);

/// A letter by which there is no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid sort specification: {0}")]
pub struct BadSort(pub char);

impl Order {
    /// Reads letters, each with `-` before it for the reverse order: `P,t,-p`.
    ///
    /// # Errors
    /// A letter names no field.
    pub fn of(text: &str) -> Result<Order, BadSort> {
        let (mut keys, mut reverse) = (Vec::new(), false);
        for letter in text.chars() {
            match letter {
                ',' | ' ' | '%' | '#' => {}
                // A field that is always empty, and one by which squeue does not sort.
                's' | 'o' => return Err(BadSort(letter)),
                '-' => reverse = true,
                '+' => reverse = false,
                _ if JOB_FIELDS.iter().any(|field| field.letter == Some(letter)) => {
                    keys.push((letter, std::mem::take(&mut reverse)));
                }
                _ => return Err(BadSort(letter)),
            }
        }
        Ok(Order(keys))
    }

    /// Whether the order is by priority.
    pub fn needs_priority(&self) -> bool {
        self.0.iter().any(|(letter, _)| matches!(letter, 'p' | 'Q'))
    }

    /// The letters of the fields.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.0.iter().map(|(letter, _)| *letter)
    }

    /// Sorts the jobs; those that are alike stay in their order.
    pub fn sort(&self, jobs: &mut [JobFacts], show: &Show) {
        // The least important first: each sort keeps the order among equals.
        for (letter, reverse) in self.0.iter().rev() {
            match *reverse {
                false => jobs.sort_by_cached_key(|job| Key::of(*letter, job, show)),
                true => jobs.sort_by_cached_key(|job| Reverse(Key::of(*letter, job, show))),
            }
        }
    }
}

/// The order of a field's values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i128),
    Numbers(u64, u64),
    Text(String),
}

impl Key {
    fn of(letter: char, job: &JobFacts, show: &Show) -> Key {
        let time = |time: Option<jiff::Timestamp>| {
            // A time that is not known comes last.
            Key::Number(time.map_or(i128::MAX, |time| time.as_second().into()))
        };
        let number = |number: u64| Key::Number(number.into());
        match letter {
            'i' => {
                let index = job.array.as_ref().map_or(0, |place| u64::from(place.first()) + 1);
                Key::Numbers(job.array_id(), index)
            }
            'A' => number(job.id),
            'F' => number(job.array_id()),
            'K' => number(job.array.as_ref().map_or(0, |place| u64::from(place.first()))),
            // Slurm compares the names.
            't' | 'T' => Key::Text(job.state.name().to_owned()),
            'C' => number(job.cpus.into()),
            'D' => number(job.nodes.into()),
            'c' => number(u64::from(job.cpus_per_task)),
            'm' => number(job.memory_asked_bytes()),
            'M' => number(job.ran_s),
            'l' => number(job.time_limit_s.unwrap_or(u64::MAX)),
            'L' => number(job.time_limit_s.map_or(u64::MAX, |s| s.saturating_sub(job.ran_s))),
            'p' | 'Q' => number(job.priority.unwrap_or(0)),
            'U' => number(job.uid.into()),
            'G' => number(job.gid.unwrap_or(0).into()),
            'y' => Key::Number(job.nice.into()),
            'V' => time(Some(job.submitted)),
            'S' => time(job.start),
            'e' => time(job.end()),
            _ => Key::Text(field_text(letter, job, show)),
        }
    }
}

fn field_text(letter: char, job: &JobFacts, show: &Show) -> String {
    let field = JOB_FIELDS.iter().find(|field| field.letter == Some(letter));
    field.map_or_else(String::new, |field| (field.value)(job, show))
}
