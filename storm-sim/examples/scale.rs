//! Launches 12 MiB on machines of growing size. Prints how long the launch took in virtual time and
//! how long the simulation took in real time.
//!
//! `cargo run --release -p storm-sim --example scale -- [NODES...]`

use std::time::Instant;
use storm_sim::figures::{LaunchSetup, launch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sizes: Vec<u32> =
        std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1, 4, 16, 64, 256, 1024, 4096, 16384];
    }
    println!("nodes,send_ms,exec_ms,total_ms,events,real_s,events_per_s");
    for nodes in sizes {
        let begun = Instant::now();
        let point = launch(&LaunchSetup::of_paper(nodes))?;
        let real_s = begun.elapsed().as_secs_f64();
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        println!(
            "{nodes},{:.2},{:.2},{:.2},{},{real_s:.2},{:.0}",
            ms(point.send),
            ms(point.exec),
            ms(point.total),
            point.events,
            point.events as f64 / real_s
        );
    }
    Ok(())
}
