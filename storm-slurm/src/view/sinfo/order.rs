//! The order of lines (`--sort`).

use super::{SINFO_FIELDS, SinfoLine};
use crate::view::Show;
use std::cmp::Reverse;

/// Letters of fields, the most important first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<SortBy>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SortBy {
    letter: char,
    reverse: bool,
    /// By the place in the configuration instead of the name.
    configured: bool,
}

/// A letter by which there is no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid sort specification: {0}")]
pub struct BadSort(pub char);

impl Order {
    /// Reads letters, with `-` for the reverse order and `#` for that of the configuration:
    /// `#P,-t`.
    ///
    /// # Errors
    /// A letter names no field.
    pub fn of(text: &str) -> Result<Order, BadSort> {
        let (mut keys, mut reverse, mut configured) = (Vec::new(), false, false);
        for letter in text.chars() {
            match letter {
                ',' | ' ' | '%' => {}
                '-' => reverse = true,
                '+' => reverse = false,
                '#' => configured = true,
                _ if SINFO_FIELDS.iter().any(|field| field.letter == Some(letter)) => {
                    keys.push(SortBy { letter, reverse, configured });
                    (reverse, configured) = (false, false);
                }
                _ => return Err(BadSort(letter)),
            }
        }
        Ok(Order(keys))
    }

    /// Sorts the lines; those that are alike stay in their order.
    pub fn sort(&self, lines: &mut [SinfoLine], show: &Show) {
        for by in self.0.iter().rev() {
            match by.reverse {
                false => lines.sort_by_cached_key(|line| Key::of(*by, line, show)),
                true => lines.sort_by_cached_key(|line| Reverse(Key::of(*by, line, show))),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    /// A name, with the numbers in it apart: `n2` precedes `n10`.
    Name(Vec<(String, u64)>),
}

impl Key {
    fn of(by: SortBy, line: &SinfoLine, show: &Show) -> Key {
        let first = line.nodes.first();
        match by.letter {
            'P' | 'R' if by.configured => Key::Number(line.place as u64),
            't' | 'T' => Key::Number(first.map_or(0, |node| node.state_number().into())),
            'D' => Key::Number(line.nodes.len() as u64),
            'N' | 'n' => Key::Name(first.map_or_else(Vec::new, |node| parts(&node.name))),
            letter => {
                let field = SINFO_FIELDS.iter().find(|field| field.letter == Some(letter));
                let text = field.map_or_else(String::new, |field| (field.value)(line, show));
                Key::Name(parts(&text))
            }
        }
    }
}

/// The text in parts: a word, and the number after it.
fn parts(text: &str) -> Vec<(String, u64)> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(word);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((name.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}
