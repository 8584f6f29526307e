//! How the shared library is linked.

fn main() {
    // What the library calls of its own is its own: a program may have a function of the same name
    // (src/profiling.rs).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=build.rs");
}
