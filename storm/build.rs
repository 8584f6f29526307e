//! Links `storm` at fixed addresses on Linux (decision 0122).

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |key: &str| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bin=storm=-no-pie");
    }
}
