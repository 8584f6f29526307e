//! Linking of the shared library.

fn main() {
    // The library's own calls must stay inside the library, because a program may have a function
    // of the same name (src/profiling.rs).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=build.rs");
}
