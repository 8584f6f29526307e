//! Lists of hosts.

use proptest::collection::vec;
use proptest::prelude::*;
use storm_slurm::host_list::{expand, fold, fold_sorted};

fn name() -> impl Strategy<Value = String> {
    ("(n|rack1n|a-)", prop_oneof![(0_u64..30).prop_map(|n| n.to_string()), "0[0-9]{1,2}".boxed()])
        .prop_map(|(prefix, number)| format!("{prefix}{number}"))
}

proptest! {
    #[test]
    fn a_folded_list_has_the_names_in_their_order(names in vec(name(), 0..20)) {
        let folded = fold(names.iter().map(String::as_str));
        prop_assert_eq!(expand(&folded).expect("a list"), names);
    }

    #[test]
    fn a_sorted_list_has_the_same_names(mut names in vec(name(), 0..20)) {
        let mut again = expand(&fold_sorted(&names)).expect("a list");
        names.sort();
        again.sort();
        prop_assert_eq!(again, names);
    }

    #[test]
    fn no_text_is_too_much(text in "[n0-9,\\[\\]\n -]{0,40}") {
        let _ = expand(&text);
    }
}
