//! The programs that the tests of this crate run: a keeper, an NM to be killed, and applications
//! with properties that no standard tool has. Not part of the product.

use std::env;
use std::ffi::OsString;
use std::hint;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use storm_pl::{
    Credentials, Event, Input, Keeper, KeeperConfig, LaunchSpec, Output, PadId, PlIndex, RankSpec,
    StartMethod, keeper_main,
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["keeper"] => keeper_main(),
        ["burn", threads] => burn(threads.parse().unwrap_or(1)),
        ["descriptors"] => list_descriptors(),
        ["manage", cluster, mechanism, user, script] => {
            manage(cluster, mechanism, user.parse().unwrap_or(0), script)
        }
        _ => ExitCode::from(64),
    }
}

/// Spins in several threads for ever, after printing that all of them run.
fn burn(threads: usize) -> ExitCode {
    let ready = std::sync::Barrier::new(threads + 1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                ready.wait();
                loop {
                    hint::spin_loop();
                }
            });
        }
        ready.wait();
        println!("spinning");
        let _ = io::stdout().flush();
    });
    ExitCode::FAILURE
}

/// Prints every open descriptor and the file behind it.
fn list_descriptors() -> ExitCode {
    // SAFETY: collects numbers first; descriptors are not touched.
    let open: Vec<i32> =
        (0..4096).filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1).collect();
    for fd in open {
        let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        println!("{fd} {}", target.display());
    }
    ExitCode::SUCCESS
}

/// An NM that runs one shell script on a pad as `user`, prints `keeper PID` and `started`, and
/// waits for the script's end.
fn manage(cluster: &str, mechanism: &str, user: u32, script: &str) -> ExitCode {
    let config = KeeperConfig {
        cluster: cluster.to_owned(),
        node: "n1".to_owned(),
        capacity: 1,
        cgroup_parent: None,
        signals_only: mechanism != "cgroup",
        leftovers: None,
        survival: None,
        start: StartMethod::Fork,
    };
    let keeper = match Keeper::start(&config) {
        Ok(keeper) => keeper,
        Err(error) => {
            println!("error {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("keeper {}", keeper.pid());
    println!("capabilities {}", keeper.capabilities());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    runtime.block_on(async {
        match serve(keeper, cluster, user, script).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("error {error}");
                ExitCode::FAILURE
            }
        }
    })
}

async fn serve(
    keeper: Keeper,
    cluster: &str,
    user: u32,
    script: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let (handle, mut events) = keeper.into_async()?;
    handle.make_pads(1)?;
    let spec = LaunchSpec {
        program: PathBuf::from("/bin/sh"),
        original: None,
        args: ["sh", "-c", script].map(OsString::from).to_vec(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("STORM_TEST".into(), cluster.into())],
        cwd: PathBuf::from("/"),
        umask: 0o022,
        credentials: Credentials { uid: user, ..Credentials::own() },
        limits: Vec::new(),
        pmi: false,
    }
    .encode()?;
    let rank = RankSpec {
        stdin: Input::Null,
        stdout: Output::Null,
        stderr: Output::Null,
        ..RankSpec::default()
    };
    while let Some(event) = events.next_event().await {
        match event {
            Event::Ready { .. } => {
                handle.launch(PadId(0), PlIndex(0), &spec, &rank)?;
            }
            Event::Launched { .. } => println!("started"),
            other => println!("event {other:?}"),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
