//! Tables of functions that differ only in their names and a few arguments. Each function is a row.

/// A collective that waits, and the same in the background: their names, the arguments before the
/// communicator, and what each member does.
macro_rules! collectives {
    ($(fn $waits:ident, $begins:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $waits($($argument: $type,)* comm: Handle) -> c_int {
            waiting(comm, stringify!($waits), $body)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $begins(
            $($argument: $type,)*
            comm: Handle,
            request: Out<Handle>,
        ) -> c_int {
            started(comm, stringify!($begins), request, $body)
        }
    )*};
}
pub(super) use collectives;

/// A collective that a request starts repeatedly: its name, the arguments before the communicator,
/// and the expression that makes the function of one start.
macro_rules! persistent_collectives {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $make:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            $($argument: $type,)*
            comm: Handle,
            info: Handle,
            request: Out<Handle>,
        ) -> c_int {
            persistent(comm, stringify!($name), (info, request), $make)
        }
    )*};
}
pub(super) use persistent_collectives;

/// Two functions that differ only in their names; the second is usually the name of MPI-1. A row
/// has both names, the arguments, and the body, which gets the name.
macro_rules! two_names {
    ($(fn $name:ident, $other:ident $arguments:tt |$called:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name $arguments -> c_int {
            let $called = stringify!($name);
            $body
        }

        #[unsafe(no_mangle)]
        extern "C" fn $other $arguments -> c_int {
            let $called = stringify!($other);
            $body
        }
    )*};
}
pub(super) use two_names;
