//! The list of all cases. The table of names, the dispatch and a backend's `#[test]` functions are
//! made from it.

use super::Trial;
use super::bench::{Bench, Verdict};

mod caw;
mod concurrency;
mod death;
mod death_steps;
mod faulty_arguments;
mod freeze;
mod histories;
mod order;
mod rejoin;
mod signals;
mod sizes;
mod xfer;

/// Calls a macro with the list of all cases: `module { name(nodes) .. }`.
///
/// - `name(nodes)` runs once on that many compute nodes.
/// - `name(nodes, each step)` runs once for each step at which a victim may die.
/// - `name(nodes, if ability)` runs only if the factory has the ability.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ({ $($callback:tt)* } $($context:tt)*) => {
        $($callback)* ! {
            { $($context)* }
            xfer {
                reaches_one_node(4),
                reaches_all_nodes(6),
                reaches_a_set_with_holes(12),
                reaches_random_sets(12),
                to_nobody_succeeds(3),
                of_zero_bytes_signals(4),
                needs_no_event(3),
                outlives_its_caller(3),
                reports_its_status_once(4),
                may_name_one_event_twice(2),
            }
            signals {
                come_after_the_data(5),
                are_counted(4),
                of_several_nodes_add_up(4),
                of_events_are_separate(2),
                release_one_waiter_each(3),
                keep_step_with_the_data(4),
            }
            caw {
                knows_four_relations(4),
                compares_unsigned(2),
                writes_when_true(6),
                writes_nothing_when_false(4),
                may_write_what_it_compares(4),
                of_nobody_is_true(3),
                finds_one_dissenter(12),
                asks_only_its_set(12),
                sees_own_stores(2),
                reaches_the_last_word(3),
            }
            faulty_arguments {
                xfer_past_the_end(3),
                xfer_that_overflows(3),
                xfer_of_nothing_past_the_end(3),
                xfer_with_unknown_event(3),
                caw_misaligned(3),
                caw_out_of_bounds(3),
                node_that_never_was(3),
            }
            order {
                small_stays_behind_large(6),
                caw_sees_own_xfer(4),
                xfer_overwrites_own_caw(4),
                last_of_a_node_remains(4),
                is_the_same_everywhere(6),
                is_causal(3),
                reaches_past_own_stores(6),
                of_overlapping_blocks(5),
            }
            concurrency {
                leaves_one_value(6),
                has_one_winner(6),
                has_no_write_skew(4),
                holds_for_overlapping_sets(5),
                makes_a_lock(4),
                makes_a_counter(4),
                survives_abandonment(4),
            }
            histories {
                of_everything(3),
                of_questions(3),
                of_transfers(3),
                of_patient_nodes(3),
            }
            sizes {
                around_a_word(3),
                around_pages(4),
                of_megabytes(4),
                of_64_mib(2),
                share_a_word(7),
                many_small_in_flight(4),
                many_large_in_flight(4),
            }
            death {
                of_one_is_known_to_all(5),
                of_the_first_cuts_off_nobody(12),
                of_half_leaves_half(12),
                of_all_in_turn(5),
                is_named_by_the_set(8),
                outside_the_set_is_no_matter(8),
                under_many_transfers(6),
                of_a_busy_initiator(6),
                of_a_lock_holder(4),
                of_the_management_node(4),
                of_the_management_node_under_load(4),
            }
            death_steps {
                small_xfer_inner(8, each step),
                small_xfer_last(8, each step),
                small_xfer_outsider(8, each step),
                small_xfer_initiator(8, each step),
                small_xfer_initiator_inside(8, each step),
                large_xfer_inner(8, each step),
                large_xfer_last(8, each step),
                large_xfer_outsider(8, each step),
                large_xfer_initiator(8, each step),
                question_inner(8, each step),
                question_outsider(8, each step),
                writing_question_inner(8, each step),
                writing_question_last(8, each step),
                writing_question_outsider(8, each step),
                writing_question_initiator(8, each step),
                writing_question_initiator_inside(8, each step),
            }
            freeze {
                of_a_destination(6, if freeze),
                of_one_who_is_asked(6, if freeze),
                of_an_outsider(6, if freeze),
                ends_outside(4, if freeze),
                of_an_initiator(4, if freeze),
            }
            rejoin {
                is_a_new_incarnation(4, if rejoin),
                begins_with_nothing(4, if rejoin),
                takes_part_again(5, if rejoin),
                owes_nothing(4, if rejoin),
            }
        }
    };
}

/// The table of names and the dispatch.
macro_rules! table {
    (
        {}
        $($module:ident { $($name:ident ($($how:tt)*),)* })*
    ) => {
        /// The names of all cases, `theme::case`.
        pub const CASES: &[&str] =
            &[$($(concat!(stringify!($module), "::", stringify!($name)),)*)*];

        /// Runs the case named `name`.
        ///
        /// # Panics
        /// If there is no such case.
        pub(crate) fn dispatch(bench: &Bench<'_>, name: &str) -> Verdict {
            $($(
                if name == concat!(stringify!($module), "::", stringify!($name)) {
                    return start!(bench, $module::$name, $($how)*);
                }
            )*)*
            panic!("there is no case named {name}");
        }
    };
}

/// Starts one case in the way that the list gives.
macro_rules! start {
    ($bench:ident, $case:path, $nodes:literal) => {
        $bench.once($nodes, $case)
    };
    ($bench:ident, $case:path, $nodes:literal, each step) => {
        $bench.each_step($nodes, $case)
    };
    ($bench:ident, $case:path, $nodes:literal, if $ability:ident) => {
        $bench.once_if($bench.capabilities().$ability, stringify!($ability), $nodes, $case)
    };
}

crate::__conformance_list! { { table } }
