//! The suite can fail: each of these bugs fails the case made for it, and the same case passes
//! without the bug.

use crate::mutant::Bug;
use storm_primitives::conformance::SimFactory;
use storm_primitives::conformance::suite::{Verdict, run_case};

const SEED: u64 = 1;

macro_rules! caught {
    ($($test:ident: $bug:ident by $($case:literal),+;)*) => {
        $(
            #[test]
            fn $test() {
                for case in [$($case),+] {
                    let verdict = run_case(&SimFactory::around(Bug::$bug), SEED, case);
                    assert!(matches!(verdict, Verdict::Failed(_)), "{case} on {:?}: {verdict:?}", Bug::$bug);
                    let sound = run_case(&SimFactory::around(()), SEED, case);
                    assert!(matches!(sound, Verdict::Passed), "{case} without a bug: {sound:?}");
                }
            }
        )*
    };
}

caught! {
    a_node_left_out: SkipsTheLastNode by "xfer::reaches_all_nodes";
    a_write_to_itself: WritesToItself by "xfer::reaches_a_set_with_holes";
    a_split_transfer: SplitsTheSet by
        "order::is_the_same_everywhere", "order::of_overlapping_blocks",
        "death_steps::small_xfer_initiator", "death_steps::large_xfer_initiator";
    a_signal_before_its_data: SignalsBeforeData by "signals::come_after_the_data";
    a_double_signal: SignalsTwice by "signals::are_counted";
    a_lost_signal: LosesSignals by "signals::are_counted";
    a_double_status: ReportsTwice by "xfer::reports_its_status_once";
    a_status_too_early: ReportsAtOnce by "xfer::reports_its_status_once";
    a_missing_status: SaysNothingOfNobody by "xfer::to_nobody_succeeds";
    an_overtaking: LetsSmallOvertake by "order::small_stays_behind_large";
    a_swapped_pair: SwapsPairs by "order::caw_sees_own_xfer";
    a_cut_block: CutsToWords by "sizes::around_a_word", "sizes::around_pages";
    a_padded_block: PadsToWords by "sizes::around_a_word", "sizes::share_a_word";
    a_hidden_fault: HidesFaults by
        "faulty_arguments::xfer_past_the_end", "faulty_arguments::xfer_with_unknown_event";
    a_wrong_blame: BlamesTheFirst by "death::is_named_by_the_set", "death_steps::question_inner";
    half_a_transfer: ServesHalf by "death::is_named_by_the_set", "death::of_one_is_known_to_all";
    a_death_ignored: IgnoresTheDead by "death::is_named_by_the_set";
    a_single_voice: AsksOne by "caw::finds_one_dissenter";
    an_own_opinion: AsksItself by "caw::asks_only_its_set", "caw::finds_one_dissenter";
    a_late_write: WritesLater by
        "concurrency::has_one_winner", "concurrency::has_no_write_skew",
        "concurrency::makes_a_counter", "histories::of_questions", "histories::of_everything";
    a_write_in_any_case: WritesAnyway by "caw::writes_nothing_when_false";
    a_write_everywhere: WritesEverywhere by "caw::writes_when_true";
    a_signed_comparison: ComparesSigned by "caw::compares_unsigned";
    a_strict_comparison: ComparesStrictly by "caw::knows_four_relations";
    an_empty_set_that_denies: NobodyIsFalse by "caw::of_nobody_is_true";
    a_test_that_takes_two: TakesTwo by "signals::are_counted";
    a_death_untold: NeverTellsDeaths by "death::of_one_is_known_to_all";
    a_life_without_mm: SurvivesTheMm by "death::of_the_management_node";
}
