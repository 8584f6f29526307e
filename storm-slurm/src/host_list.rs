//! Lists of hosts: `n[1-3,07],login`. Order and repetition count, as for Slurm's own commands.

use thiserror::Error;

/// The most names that a list may have.
const MAX_NAMES: usize = 1 << 16;
/// The most digits of a number in brackets: each fits into 64 bits.
const MAX_DIGITS: usize = 18;

/// The text is not a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Invalid hostlist: {0}")]
pub struct NotAHostList(pub String);

/// The most bytes of all names: 256 for each of the most names.
const MAX_BYTES: usize = MAX_NAMES << 8;

/// The names of a list, in order.
///
/// # Errors
/// A bracket is not closed, a range is wrong, or there are more than 65,536 names or 16 MiB of
/// them.
pub fn expand(list: &str) -> Result<Vec<String>, NotAHostList> {
    let wrong = || NotAHostList(list.to_owned());
    let (mut all, mut bytes) = (Vec::new(), 0_usize);
    for part in parts(list).ok_or_else(wrong)? {
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some((before, behind)) = rest.split_once('[') {
            let (ranges, after) = behind.split_once(']').ok_or_else(wrong)?;
            let numbers = numbers(ranges).ok_or_else(wrong)?;
            let count = names.len().saturating_mul(numbers.len());
            let width = widest(&names) + before.len() + widest(&numbers);
            if count > MAX_NAMES || count.saturating_mul(width) > MAX_BYTES {
                return Err(wrong());
            }
            let with = |name: &String| {
                numbers.iter().map(|number| format!("{name}{before}{number}")).collect::<Vec<_>>()
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        let part_bytes = names.len().saturating_mul(widest(&names) + rest.len());
        bytes = bytes.saturating_add(part_bytes);
        if bytes > MAX_BYTES {
            return Err(wrong());
        }
        names.iter_mut().for_each(|name| name.push_str(rest));
        all.extend(names.into_iter().filter(|name| !name.is_empty()));
        if all.len() > MAX_NAMES {
            return Err(wrong());
        }
    }
    Ok(all)
}

fn widest(names: &[String]) -> usize {
    names.iter().map(String::len).max().unwrap_or_default()
}

/// The parts between commas that are in no brackets; `None` if a bracket is wrong.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, sign) in list.char_indices() {
        match sign {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return None,
            ',' | '\n' if !inside => {
                parts.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[begin..].trim());
    (!inside).then_some(parts)
}

/// The numbers of `1-3,07`, as wide as their first.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if !is_number(first) || !is_number(last) || first.len().max(last.len()) > MAX_DIGITS {
            return None;
        }
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if from > to || usize::try_from(to - from).ok()? >= MAX_NAMES {
            return None;
        }
        let width = first.len();
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
        if all.len() > MAX_NAMES {
            return None;
        }
    }
    Some(all)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The list of these names: neighbours that differ in their last number share brackets.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for name in names {
        let (prefix, number) = split(name);
        match groups.last_mut().filter(|group| group.prefix == prefix && group.takes(number)) {
            Some(group) => group.push(number),
            None => groups.push(Group::new(prefix, number)),
        }
    }
    let shown = |Group { prefix, numbers, .. }: &Group<'_>| match numbers.as_slice() {
        [one] => format!("{prefix}{one}"),
        several => format!("{prefix}[{}]", ranges(several)),
    };
    groups.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// Neighbours that differ in their last number.
struct Group<'a> {
    prefix: &'a str,
    numbers: Vec<&'a str>,
    /// Whether one of the numbers has zeros in front.
    is_padded: bool,
    /// The width of the numbers; `None` if they have several.
    width: Option<usize>,
}

impl<'a> Group<'a> {
    fn new(prefix: &'a str, number: &'a str) -> Group<'a> {
        let (is_padded, width) = (is_padded(number), Some(number.len()));
        Group { prefix, numbers: vec![number], is_padded, width }
    }

    /// Whether a number may stand in brackets with these: all are padded to one width, or none is.
    fn takes(&self, number: &str) -> bool {
        let are_numbers = self.width != Some(0) && !number.is_empty();
        let may_differ = !self.is_padded && !is_padded(number);
        are_numbers
            && number.len() <= MAX_DIGITS
            && (may_differ || self.width == Some(number.len()))
    }

    fn push(&mut self, number: &'a str) {
        self.numbers.push(number);
        self.is_padded |= is_padded(number);
        self.width = self.width.filter(|width| *width == number.len());
    }
}

fn is_padded(number: &str) -> bool {
    number.len() > 1 && number.starts_with('0')
}

/// The list of these names in order of prefix and number.
pub fn fold_sorted(names: &[String]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    let value = |number: &str| number.parse::<u64>().ok();
    sorted.sort_by_key(|name| {
        let (prefix, number) = split(name);
        (prefix, value(number), number)
    });
    fold(sorted)
}

/// The name up to its last number, and that number.
fn split(name: &str) -> (&str, &str) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    name.split_at(name.len() - digits)
}

fn ranges(numbers: &[&str]) -> String {
    let mut all: Vec<(&str, &str)> = Vec::new();
    let value = |number: &str| number.parse::<u64>().unwrap_or(u64::MAX);
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if value(last).checked_add(1) == Some(value(number)) => *last = number,
            _ => all.push((number, number)),
        }
    }
    let shown = |(first, last): &(&str, &str)| match first == last {
        true => (*first).to_owned(),
        false => format!("{first}-{last}"),
    };
    all.iter().map(shown).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of `scontrol show hostnames` of Slurm 22.05.
    #[test]
    fn names_are_those_of_slurm() {
        for (list, names) in [
            ("n3,n1,n2,n1", "n3 n1 n2 n1"),
            ("a,b[1-2],c[01-02]x[1-2]", "a b1 b2 c01x1 c01x2 c02x1 c02x2"),
            ("n[1,3-4],m5,n6", "n1 n3 n4 m5 n6"),
            ("n[09-10]", "n09 n10"),
            ("", ""),
        ] {
            assert_eq!(expand(list).expect("a list").join(" "), names, "{list}");
        }
        for wrong in ["n[3-1]", "n[1", "n]1", "n[[1]]", "n[x]", "n[1-99999999999]", "n[]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
        assert!(expand("n[0-999]x[0-999]").is_err(), "a million names");
        // Regression: a width of 65,536 ended the program.
        for digits in [19, 70_000] {
            assert!(expand(&format!("n[{}]", "0".repeat(digits))).is_err(), "{digits} digits");
        }
        let widest = "0".repeat(18);
        assert_eq!(expand(&format!("n[{widest}]")), Ok(vec![format!("n{widest}")]));
    }

    /// The answers of `scontrol show hostlist` and `hostlistsorted` of Slurm 22.05.
    #[test]
    fn lists_are_those_of_slurm() {
        for (names, list, sorted) in [
            ("n1,n2,n3,n5", "n[1-3,5]", "n[1-3,5]"),
            ("n3,n1,n2", "n[3,1-2]", "n[1-3]"),
            ("n01,n02,n10", "n[01-02,10]", "n[01-02,10]"),
            ("a1,b1,a2", "a1,b1,a2", "a[1-2],b1"),
            ("n9,n10,n11", "n[9-11]", "n[9-11]"),
            ("n1,n1", "n[1,1]", "n[1,1]"),
            ("n[1-2],n3", "n[1-3]", "n[1-3]"),
            ("nodea,nodeb", "nodea,nodeb", "nodea,nodeb"),
            ("r1n1,r1n2,r2n1", "r1n[1-2],r2n1", "r1n[1-2],r2n1"),
        ] {
            let names = expand(names).expect("a list");
            assert_eq!(fold(names.iter().map(String::as_str)), list);
            assert_eq!(fold_sorted(&names), sorted);
        }
    }

    /// Regression: 65,536 names of a short list took gigabytes.
    #[test]
    fn many_long_names_are_refused() {
        let long = "x".repeat(100_000);
        for list in [format!("n[0-9999]{long}"), format!("{long}[0-9999]n[1-2]")] {
            assert!(expand(&list).is_err());
        }
        let parts = vec![format!("n[0-99]{long}"); 3].join(",");
        assert!(expand(&parts).is_err(), "in several parts");
        assert_eq!(expand(&format!("n[0-1]{long}")).map(|names| names.len()), Ok(2));
    }
}
