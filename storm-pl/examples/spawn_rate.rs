//! Prints how fast PLs launch and pads switch. A plain loop of `posix_spawn` and `waitpid` runs on
//! the same machine in the same run, for comparison.
//!
//! `cargo run --release -p storm-pl --example spawn_rate [PROGRAM [COUNT]]`; the program should do
//! nothing, like `/bin/true`, and is best linked statically.

use std::env;
use std::error::Error;
use std::ffi::CString;
use std::path::PathBuf;
use std::process::{ExitCode, id};
use std::ptr;
use std::time::{Duration, Instant};

use storm_pl::{
    Credentials, Event, Input, Keeper, KeeperConfig, KeeperEvents, KeeperHandle, LaunchSpec,
    Output, PadId, PlIndex, RankSpec, StartMethod, switch,
};

/// Runs of each kind; the median is printed.
const RUNS: usize = 7;
/// PEs of a node, as in the evaluation of the paper.
const CAPACITY: u16 = 4;
/// Switches per measurement.
const SWITCHES: u32 = 2_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let program = args.next().unwrap_or_else(|| "/bin/true".to_owned());
    let count = args.next().and_then(|count| count.parse().ok()).unwrap_or(256);
    match measure(&program, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(program: &str, count: u16) -> Outcome<()> {
    let start = Instant::now();
    let keeper = Keeper::start(&KeeperConfig {
        cluster: format!("rate-{}", id()),
        node: "n1".to_owned(),
        capacity: CAPACITY,
        cgroup_parent: None,
        signals_only: false,
        leftovers: None,
        survival: None,
        start: StartMethod::Fork,
    })?;
    println!("keeper ready                 {:>9.2} ms", ms(start.elapsed()));
    println!("{}", keeper.capabilities());
    let memory = private_kib(keeper.pid().0);
    println!("keeper private memory        {memory:>9} KiB");
    let floor = median(|| spawn_loop(program, count))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (handle, mut events) = keeper.into_async()?;
        let start = Instant::now();
        let pads = handle.make_pads(count.div_ceil(CAPACITY))?;
        until_ready(&mut events, pads.len()).await?;
        println!("{count} PLs made                {:>9.2} ms", ms(start.elapsed()));
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(launch_all(&handle, &mut events, &pads, program, count).await?);
        }
        let first = median_of(runs.iter().map(|run| run.launched).collect());
        let all = median_of(runs.iter().map(|run| run.ended).collect());
        let refill = median_of(runs.iter().map(|run| run.refilled).collect());
        println!("{count} x posix_spawn + waitpid {:>9.2} ms   1.00", ms(floor));
        let ratio = |time: Duration| time.as_secs_f64() / floor.as_secs_f64();
        println!("{count} PLs: all executing      {:>9.2} ms   {:.2}", ms(first), ratio(first));
        println!("{count} PLs: all ended          {:>9.2} ms   {:.2}", ms(all), ratio(all));
        println!("{count} PLs: pads filled again  {:>9.2} ms   {:.2}", ms(refill), ratio(refill));
        measure_switch(&handle, pads[0], pads[1])?;
        handle.shutdown()?;
        while events.next_event().await.is_some() {}
        Ok(())
    })
}

/// The times at which all ranks had executed, all had ended, and all pads were ready again.
struct Run {
    launched: Duration,
    ended: Duration,
    refilled: Duration,
}

async fn launch_all(
    handle: &KeeperHandle,
    events: &mut KeeperEvents,
    pads: &[PadId],
    program: &str,
    count: u16,
) -> Outcome<Run> {
    let spec = LaunchSpec {
        program: PathBuf::from(program),
        original: None,
        args: vec!["true".into()],
        env: env::vars_os().collect(),
        cwd: PathBuf::from("/"),
        umask: 0o022,
        credentials: Credentials::own(),
        limits: Vec::new(),
        pmi: false,
    };
    let rank = RankSpec { stdin: Input::Null, stdout: Output::Pipe, ..RankSpec::default() };
    let start = Instant::now();
    let spec = spec.encode()?;
    let mut ends = Vec::with_capacity(usize::from(count));
    for index in 0..count {
        let pad = pads[usize::from(index / CAPACITY)];
        ends.push(handle.launch(pad, PlIndex(index % CAPACITY), &spec, &rank)?.ends);
    }
    let (mut launched, mut ended) = (0, 0);
    let mut last_launch = Duration::ZERO;
    while ended < count {
        match events.next_event().await.ok_or("the keeper is gone")? {
            Event::Launched { .. } => {
                launched += 1;
                if launched == count {
                    last_launch = start.elapsed();
                }
            }
            Event::Exited { .. } => ended += 1,
            other => return Err(format!("{other:?}").into()),
        }
    }
    let last_end = start.elapsed();
    for &pad in pads {
        handle.release(pad)?;
    }
    until_ready(events, pads.len()).await?;
    let refilled = start.elapsed() - last_end;
    Ok(Run { launched: last_launch, ended: last_end, refilled })
}

async fn until_ready(events: &mut KeeperEvents, mut pads: usize) -> Outcome<()> {
    while pads > 0 {
        match events.next_event().await.ok_or("the keeper is gone")? {
            Event::Ready { .. } => pads -= 1,
            Event::PadClean { .. } => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok(())
}

fn measure_switch(handle: &KeeperHandle, one: PadId, other: PadId) -> Outcome<()> {
    let freezers = [one, other].map(|pad| handle.freezer(pad));
    let [Some(one), Some(other)] = freezers else { return Err("no freezer".into()) };
    one.stop()?;
    let start = Instant::now();
    for _ in 0..SWITCHES / 2 {
        switch([&*other], [&*one])?;
        switch([&*one], [&*other])?;
    }
    let each = start.elapsed() / SWITCHES;
    one.resume()?;
    println!("switch of two pads of {CAPACITY}       {:>9.2} us", each.as_secs_f64() * 1e6);
    Ok(())
}

fn spawn_loop(program: &str, count: u16) -> Outcome<Duration> {
    let path = CString::new(program)?;
    let argv = [path.as_ptr().cast_mut(), ptr::null_mut()];
    let start = Instant::now();
    for _ in 0..count {
        let mut pid = 0;
        // SAFETY: all pointers are valid for the call; `argv` and `environ` end with null.
        let result = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                path.as_ptr(),
                ptr::null(),
                ptr::null(),
                argv.as_ptr(),
                environ(),
            )
        };
        if result != 0 {
            return Err(std::io::Error::from_raw_os_error(result).into());
        }
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None)?;
    }
    Ok(start.elapsed())
}

fn median(mut run: impl FnMut() -> Outcome<Duration>) -> Outcome<Duration> {
    let times: Result<Vec<_>, _> = (0..RUNS).map(|_| run()).collect();
    Ok(median_of(times?))
}

fn median_of(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Memory that only this process has.
fn private_kib(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

/// The environment in the form of C.
fn environ() -> *const *mut libc::c_char {
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    // SAFETY: this process has one thread and changes no variable.
    unsafe { environ }
}
