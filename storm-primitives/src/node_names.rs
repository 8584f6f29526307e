//! Lists of nodes by name, in the notation of ClusterShell: `n[1-64],login` or
//! `r[1-2]n[01-16]!r1n7`.
//!
//! The `nodeset` crate reads the notation. The crate has no limits: it holds every number of every
//! range, and recurses for every parenthesis. This module is the only door to the crate. It
//! measures a list before the crate reads it, so that a short text from outside cannot take all
//! memory.
//!
//! The measure bounds what the crate allocates, for every text:
//!
//! - The crate unfolds a name only after it has read the name as a whole, and in order. So all that
//!   it unfolds lies between separators outside of brackets, where this module looks for names too.
//! - A bracket has the sum of its ranges, a name the product of its brackets, and `,` adds. `!` and
//!   ` - ` only take away. If a name has several numbers, `&` and `^` compare each name on the left
//!   with each on the right, so each of them multiplies by the number of such names at most.
//! - The digits beside a bracket multiply its numbers in 32 bits. Numbers for which the product
//!   wraps, and a range becomes a huge one, are refused.

use crate::MAX_NODES;
use std::fmt;
use thiserror::Error;

/// The most parentheses of a list: each takes stack.
const MAX_PARENTHESES: usize = 16;
/// The most digits of a number, with those beside its bracket.
const MAX_DIGITS: usize = 10;
/// The largest number that the crate can hold with its padding.
const LARGEST_NUMBER: u64 = 3_183_856_184;
/// The memory of a number in a name that has several numbers, in bytes.
const NUMBER_BYTES: u64 = 32;
/// The mean memory of a name, in bytes: eight numbers and 255 letters for half of the most names.
const NAME_BYTES: u64 = 256;

/// The parser may sort all names for each part of a list. A client's list has at most this number
/// of parts if it names the most nodes, and more if it names fewer.
const MOST_PARTS: u64 = 128;

/// Nodes by name, each once.
#[derive(Clone, Debug)]
pub struct NodeNames(nodeset::NodeSet);

/// The reason why a list of nodes is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeNamesError {
    /// The list names too many nodes, before its operators take any away.
    #[error("it names more than {most} nodes; a cluster has fewer")]
    TooMany {
        /// The bound.
        most: u32,
    },
    /// The names have too many numbers or letters together.
    #[error("its names take more than {most_bytes} bytes; name fewer nodes at once")]
    TooLong {
        /// The bound.
        most_bytes: u64,
    },
    /// A client's list has too many parts for the nodes that it names.
    #[error("it has too many parts, {parts}, for {names} nodes; fold it, as n[1-8,12]")]
    TooManyParts {
        /// Names with their ranges.
        parts: u64,
        /// Nodes, before operators take any away.
        names: u64,
    },
    /// A step is 0.
    #[error("a range has a step of 0; n[1-9/2] is every second node")]
    StepOfNothing,
    /// A number does not fit.
    #[error("a number is larger than {LARGEST_NUMBER} or has more than {MAX_DIGITS} digits")]
    LargeNumber,
    /// There are too many parentheses.
    #[error("it has more than {MAX_PARENTHESES} parentheses; operators apply from left to right")]
    Parentheses,
    /// The list names a group of nodes.
    #[error("groups of nodes such as @rack are not known; name the nodes")]
    Groups,
    /// The text is not in the notation.
    #[error("{0}")]
    Syntax(String),
}

impl NodeNames {
    /// Reads a list that names at most `most` nodes before its operators take any away.
    ///
    /// # Errors
    /// The text is not in the notation, or exceeds a bound.
    pub fn parse(list: &str, most: u32) -> Result<NodeNames, NodeNamesError> {
        check(list, most)?;
        NodeNames::read(list)
    }

    /// The same for a text of a client, which must not keep a daemon from its work: a list of many
    /// nodes has few parts.
    ///
    /// # Errors
    /// The text is not in the notation, or exceeds a bound.
    pub fn parse_of_client(list: &str, most: u32) -> Result<NodeNames, NodeNamesError> {
        let (parts, names) = check(list, most)?;
        if parts.saturating_mul(names) > MOST_PARTS * u64::from(most) {
            return Err(NodeNamesError::TooManyParts { parts, names });
        }
        NodeNames::read(list)
    }

    fn read(list: &str) -> Result<NodeNames, NodeNamesError> {
        let names = nodeset::Parser::default().parse(list);
        names.map(NodeNames).map_err(|why| NodeNamesError::Syntax(why.to_string()))
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no node is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter()
    }
}

impl fmt::Display for NodeNames {
    /// Writes the folded list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Folds names: `n[1-4]`. Names that cannot be folded are listed.
pub fn fold_names<S: AsRef<str>>(names: &[S]) -> String {
    let list = names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",");
    NodeNames::parse(&list, MAX_NODES).map_or(list, |names| names.to_string())
}

/// Refuses a list that the crate cannot unfold in little memory. Returns the number of its parts,
/// and of the nodes that these name.
fn check(list: &str, most: u32) -> Result<(u64, u64), NodeNamesError> {
    if list.contains('@') {
        return Err(NodeNamesError::Groups);
    }
    if list.matches('(').count() > MAX_PARENTHESES {
        return Err(NodeNamesError::Parentheses);
    }
    let most_bytes = NAME_BYTES * u64::from(most);
    let (mut parts, mut names, mut bytes, mut products) = (0_u64, 0_u64, 0_u64, 1_u64);
    for name in names_of(list) {
        let size = Size::of(name)?;
        parts += 1;
        names = names.saturating_add(size.names);
        bytes = bytes.saturating_add(size.bytes());
        products += u64::from(size.numbers > 1);
        if names > u64::from(most) {
            return Err(NodeNamesError::TooMany { most });
        }
    }
    let joins = u32::try_from(list.matches(['&', '^']).count()).unwrap_or(u32::MAX);
    match bytes.saturating_mul(products.saturating_pow(joins)) > most_bytes {
        true => Err(NodeNamesError::TooLong { most_bytes }),
        false => Ok((parts, names)),
    }
}

/// The names between separators, each with its ranges. A comma in brackets is no separator.
fn names_of(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let is_separator = move |sign: char| {
        inside = sign == '[' || inside && sign != ']';
        !inside && (sign.is_whitespace() || ",&!^()".contains(sign))
    };
    list.split(is_separator).filter(|name| !name.is_empty())
}

/// The extent of one name with ranges.
struct Size {
    /// The nodes.
    names: u64,
    /// Numbers in each name. Digits beside a bracket count as further ones.
    numbers: u64,
    /// Longest name, in bytes.
    width: u64,
}

impl Size {
    fn of(name: &str) -> Result<Size, NodeNamesError> {
        let mut size = Size { names: 1, numbers: 0, width: 0 };
        if !name.contains('[') {
            // `1-9` is a range without brackets. Any other text is a single name.
            size.names = Range::of(name)?.count;
        }
        let mut rest = name;
        // The crate reads no further than a bracket that is not closed.
        while let Some((before, (ranges, after))) = first_bracket(rest) {
            let high = &before[before.trim_end_matches(is_digit).len()..];
            let low = &after[..after.len() - after.trim_start_matches(is_digit).len()];
            let (mut count, mut width) = (0_u64, 0);
            for range in ranges.split(',') {
                let range = Range::of(range)?;
                range.check_beside(high, low)?;
                count = count.saturating_add(range.count);
                width = width.max(range.last.len());
            }
            size.names = size.names.saturating_mul(count);
            size.add_text(before);
            size.numbers += 1;
            size.width += width as u64;
            rest = after;
        }
        size.add_text(rest);
        Ok(size)
    }

    fn add_text(&mut self, text: &str) {
        self.numbers +=
            text.split(|sign| !is_digit(sign)).filter(|run| !run.is_empty()).count() as u64;
        self.width += text.len() as u64;
    }

    /// The memory of all names, in bytes.
    fn bytes(&self) -> u64 {
        let each = self.numbers.saturating_mul(NUMBER_BYTES).saturating_add(self.width);
        self.names.saturating_mul(each)
    }
}

/// The text before a bracket, in the bracket, and behind it.
fn first_bracket(text: &str) -> Option<(&str, (&str, &str))> {
    let (before, behind) = text.split_once('[')?;
    Some((before, behind.split_once(']')?))
}

/// `7`, `1-9` or `1-9/2`. Any other text counts as one number: the crate refuses it in brackets.
struct Range<'a> {
    count: u64,
    last: &'a str,
}

impl<'a> Range<'a> {
    fn of(text: &'a str) -> Result<Range<'a>, NodeNamesError> {
        let (first, rest) = text.split_once('-').unwrap_or((text, text));
        let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
        let count = match (number(first), number(last), number(step)) {
            (Some(_), Some(_), Some(0)) => return Err(NodeNamesError::StepOfNothing),
            (Some(first), Some(last), Some(step)) => {
                (last.saturating_sub(first) / step).saturating_add(1)
            }
            _ => 1,
        };
        Ok(Range { count, last })
    }

    /// Refuses numbers that do not fit with the digits beside the bracket.
    fn check_beside(&self, high: &str, low: &str) -> Result<(), NodeNamesError> {
        let fits = high.len() + self.last.len() + low.len() <= MAX_DIGITS
            && number(&format!("{high}{}{low}", self.last)).is_none_or(|all| all <= LARGEST_NUMBER);
        if fits { Ok(()) } else { Err(NodeNamesError::LargeNumber) }
    }
}

/// The value of digits, at most the largest `u64`.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.chars().all(is_digit);
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn is_digit(sign: char) -> bool {
    sign.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MOST: u32 = MAX_NODES;

    fn names(list: &str) -> Result<Vec<String>, NodeNamesError> {
        NodeNames::parse(list, MOST).map(|names| names.iter().collect())
    }

    #[test]
    fn lists_are_unfolded_and_folded() {
        let cases = [
            ("", 0, ""),
            ("n3", 1, "n3"),
            ("n[1-3],n2,m7", 4, "m7,n[1-3]"),
            ("n[1-9/2]", 5, "n[1,3,5,7,9]"),
            ("n[0-131071/2],n[1-131071/2]", 131_072, "n[0-131071]"),
            ("r[1-2]n[01-16]!r1n07", 31, "r1n[01-06,08-16],r2n[01-16]"),
            ("(n[1-4]&n[3-9]),x", 3, "n[3-4],x"),
            ("n[1-4] - n2", 3, "n[1,3-4]"),
            ("1-3", 3, "1-3"),
            ("8-9-10x", 1, "8-9-10x"),
            ("ip-10-0-200000", 1, "ip-10-0-200000"),
            ("rack/0", 1, "rack/0"),
            ("n20240101[01-16]", 16, "n[2024010101-2024010116]"),
            ("n[1-2]05", 2, "n[105,205]"),
        ];
        for (list, count, folded) in cases {
            let names = NodeNames::parse(list, MOST).expect(list);
            assert_eq!((names.len(), names.to_string().as_str()), (count, folded), "{list}");
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), count, "{list}");
        }
    }

    /// Regression: the crate took 400 MB for ten letters.
    #[test]
    fn short_lists_of_many_nodes_are_refused() {
        let many = NodeNamesError::TooMany { most: MOST };
        for list in [
            "8-999999999\n\0",
            "8-999999999",
            "(0-131072)",
            "n[1-1000000000]!n[1-1000000000]",
            "n[0-99999,0-99999]",
            "n[0-9999]x[0-9999]",
            "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]g[1-9]",
            "n[0-999999/7]",
            "8-999999999 n[",
        ] {
            assert_eq!(names(list), Err(many.clone()), "{list}");
        }
        assert_eq!(names("n[1-131072]").map(|names| names.len()), Ok(131_072));
        assert!(NodeNames::parse("n[1-4]", 4).is_ok() && NodeNames::parse("n[1-4]", 3).is_err());
    }

    /// Regression: the crate multiplied in 32 bits, and one node became 429 million.
    #[test]
    fn numbers_that_wrap_are_refused() {
        for list in ["n[430000000]0", "n[4]000000000", "9[9]99999999", "n[1-9999999999999]"] {
            assert_eq!(names(list), Err(NodeNamesError::LargeNumber), "{list}");
        }
        let padded = format!("n[{}1-2]", "0".repeat(65_536));
        assert!(names(&padded).is_err());
        assert!(names("n4294967295").is_err());
        assert_eq!(names("n[3183856184]"), Ok(vec!["n3183856184".to_owned()]));
        assert_eq!(names("n[318385618]4"), Ok(vec!["n3183856184".to_owned()]));
    }

    #[test]
    fn long_names_and_names_of_many_numbers_are_bounded() {
        let long = format!("n[0-99999]{}", "x".repeat(60_000));
        let deep = format!("{}[0-99999]", "a1".repeat(1_000));
        // Each `&` would multiply: there are 10^6 products after the first.
        let part = ["a1b1"; 1_000].join(",");
        let joined = [part.as_str(); 3].map(|part| format!("({part})")).join("&");
        for list in [&long, &deep, &joined] {
            assert!(matches!(names(list), Err(NodeNamesError::TooLong { .. })));
        }
        assert_eq!(names("r[1-4]n[1-99]&r2n[1-5]").map(|names| names.len()), Ok(5));
        let every: Vec<String> = (0..20_000).map(|n| format!("r1c2s3n{}", 2 * n)).collect();
        let folded = fold_names(&every);
        assert!(folded.len() < 120_000);
        assert_eq!(names(&folded).map(|names| names.len()), Ok(20_000));
    }

    /// Regression: many parentheses took all stack.
    #[test]
    fn parentheses_steps_of_0_and_groups_are_refused() {
        assert_eq!(names(&"(".repeat(60_000)), Err(NodeNamesError::Parentheses));
        let deepest = format!("{}n1{}", "(".repeat(16), ")".repeat(16));
        assert_eq!(names(&deepest), Ok(vec!["n1".to_owned()]));
        for list in ["n[1-2/0]", "n[1-2/00]", "a[1-4/2],b[1-9/0,12]", "1-9/0", "(1-9/0)"] {
            assert_eq!(names(list), Err(NodeNamesError::StepOfNothing), "{list}");
        }
        for list in ["n[1-9/10]", "n0", "n[0-9]", "n[1-9/1]m[0-4/2]", "a/0"] {
            assert!(names(list).is_ok(), "{list}");
        }
        assert_eq!(names("n1,@rack"), Err(NodeNamesError::Groups));
        for list in ["n[1-", "n[3-1]", "n[1-2/]", "]", "n[-]", "n[[1-3]]", ",,", "n[01-2]"] {
            assert!(names(list).is_err(), "{list}");
        }
    }

    /// Regression: 2 KiB kept a manager busy for seconds.
    #[test]
    fn a_client_s_list_of_many_nodes_has_few_parts() {
        let parse = |list: &str| NodeNames::parse_of_client(list, MOST).map(|names| names.len());
        let slow = format!("n[1-130000]{}", ",n1".repeat(680));
        let refused = NodeNamesError::TooManyParts { parts: 681, names: 130_680 };
        assert_eq!(parse(&slow), Err(refused));
        let single: Vec<String> = (0..4_096).map(|n| format!("n{n}")).collect();
        assert_eq!(parse(&single.join(",")), Ok(4_096));
        assert_eq!(parse("n[1-65000]!n[7-65000],m[1-9/2]"), Ok(11));
    }

    #[test]
    fn names_that_cannot_be_folded_are_listed() {
        assert_eq!(fold_names(&["n2", "n1", "n2"]), "n[1-2]");
        assert_eq!(fold_names(&["n1", "é\u{301}#"]), "n1,é\u{301}#");
        assert_eq!(fold_names::<&str>(&[]), "");
    }

    proptest! {
        /// The measure is never less than what the crate makes of a list.
        #[test]
        fn no_list_has_more_names_than_measured(list in "([a-b]{0,2}[0-9]{0,3}(\\[[0-9]{1,2}(-[0-9]{1,3}(/[0-9])?)?(,[0-9])?\\])?[0-9]{0,2}[,!&^ ()]{0,1}){1,6}") {
            let measured: Result<Vec<Size>, _> = names_of(&list).map(Size::of).collect();
            if let (Ok(measured), Ok(names)) = (measured, NodeNames::parse(&list, MOST)) {
                let most: u64 = measured.iter().map(|size| size.names).sum();
                let width = measured.iter().map(|size| size.width).max().unwrap_or(0);
                prop_assert!(names.len() as u64 <= most);
                prop_assert_eq!(names.iter().count(), names.len());
                prop_assert!(names.iter().all(|name| name.len() as u64 <= width));
            }
        }
    }
}
