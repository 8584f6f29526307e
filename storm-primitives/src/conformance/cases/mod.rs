//! The list of all cases, in one place, from which come the table of names, the
//! dispatch and a backend's `#[test]` functions.

use super::suite::{Bench, Verdict};
use super::{Factory, Trial};

mod xfer;

/// Calls a macro with the list of all cases: `module { name(nodes) .. }`.
/// `name(nodes)` runs once on that many compute nodes; `name(nodes, each step)`
/// once for each step at which a victim may die; `name(nodes, if ability)` only
/// where the factory can do that.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ({ $($callback:tt)* } $($context:tt)*) => {
        $($callback)* ! {
            { $($context)* }
            xfer {
                reaches_one_node(4),
            }
        }
    };
}

/// Makes one `#[test]` for every case of the suite, named `theme::case`, on the
/// clusters of the factory that the expression makes. The expression is put
/// into submodules of the caller's module, where everything of that module is
/// in scope.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::__conformance_list! { { $crate::__conformance_tests } $factory }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (
        { $factory:expr }
        $($module:ident { $($name:ident ($($how:tt)*),)* })*
    ) => {
        $crate::__conformance_modules! { { $factory } $($module { $($name)* })* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_modules {
    ({ $factory:expr }) => {};
    ({ $factory:expr } $module:ident { $($name:ident)* } $($rest:tt)*) => {
        mod $module {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use super::*;
            $(
                #[test]
                fn $name() {
                    let name = concat!(stringify!($module), "::", stringify!($name));
                    $crate::conformance::suite::check(&$factory, name, env!("CARGO_PKG_NAME"));
                }
            )*
        }
        $crate::__conformance_modules! { { $factory } $($rest)* }
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
        /// When there is no such case.
        pub(crate) fn dispatch<F: Factory>(bench: &Bench<'_, F>, name: &str) -> Verdict {
            $($(
                if name == concat!(stringify!($module), "::", stringify!($name)) {
                    return start!(bench, $module::$name, $($how)*);
                }
            )*)*
            panic!("there is no case named {name}");
        }
    };
}

/// Starts one case in the way the list says.
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
