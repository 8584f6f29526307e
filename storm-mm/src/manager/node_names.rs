//! A bound on the number of nodes that a folded list names, found without unfolding the list. The
//! operations on a list's sets go node by node, and a client's list must not keep the manager from
//! strobing.

use std::num::IntErrorKind;

/// The most nodes that a client's list may name before its operators take any away: far more than a
/// cluster has, and unfolded at once.
pub(super) const MAX_NAMED: u64 = 1 << 20;

/// The most nodes that a list in the notation of ClusterShell can name, before its operators take
/// any away. The bound is the sum over its names of the product of each name's ranges.
pub(super) fn named_at_most(list: &str) -> u64 {
    let (mut all, mut of_name, mut of_ranges) = (0u64, 1u64, None);
    for (at, sign) in list.char_indices() {
        match (sign, &mut of_ranges) {
            ('[', None) => of_ranges = Some((0u64, at + 1)),
            (',', Some((total, begin))) => {
                *total = total.saturating_add(in_range(&list[*begin..at]));
                *begin = at + 1;
            }
            (']', Some((total, begin))) => {
                let ranges = total.saturating_add(in_range(&list[*begin..at]));
                of_name = of_name.saturating_mul(ranges);
                of_ranges = None;
            }
            (sign, None) if matches!(sign, ',' | '!' | '&' | '^') || sign.is_whitespace() => {
                all = all.saturating_add(of_name);
                of_name = 1;
            }
            _ => {}
        }
    }
    all.saturating_add(of_name)
}

/// The most numbers that `7`, `1-9` or `1-9/2` can name. The parser refuses any other text.
fn in_range(range: &str) -> u64 {
    let Some((first, rest)) = range.split_once('-') else { return 1 };
    let last = rest.split_once('/').map_or(rest, |(last, _)| last);
    let number = |digits: &str| match digits.trim().parse::<u64>() {
        Ok(number) => number,
        // A number that does not fit into a `u64` is too large.
        Err(why) if *why.kind() == IntErrorKind::PosOverflow => u64::MAX,
        Err(_) => 0,
    };
    let (first, last) = (first.trim().parse().unwrap_or(0), number(last));
    last.saturating_sub(first).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_multiply_within_a_name_and_names_add() {
        let cases = [
            ("n1", 1),
            ("n[1-64]", 64),
            ("n[1-4,7,10-11]", 7),
            ("n[1-4],m[0-9]", 14),
            ("r[1-10]n[1-20]", 200),
            ("n[1-10]!n[1-8]", 18),
            ("n[1-10/5]", 10),
            ("n[0001-1000]", 1_000),
        ];
        for (list, most) in cases {
            assert_eq!(named_at_most(list), most, "{list}");
        }
        assert!(named_at_most("n[1-1000000000]!n[1-1000000000]") > MAX_NAMED);
        assert!(named_at_most("a[1-2000]b[1-2000]") > MAX_NAMED);
        assert_eq!(named_at_most("n[1-99999999999999999999999]"), u64::MAX);
    }

    #[test]
    fn nonsense_is_bounded_too() {
        for list in ["", "[", "]", "n[", "n[1-", "n[-]", "n[[1-3]]", "[1-9", ",,", "é[1-2]é"] {
            assert!(named_at_most(list) < 100 || list.contains("1-"), "{list}");
        }
    }
}
