//! A modelled process, and the freezer that stops and resumes its job.

use super::daemon_time::DaemonTime;
use super::pipe::Pipe;
use super::share::Share;
use super::{Activity, Endpoint, HostAct, Model, Script, Step};
use crate::{HostEvent, JobKey};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, Instant, Runtime};
use storm_rm::Rank;
use storm_rm::message::{ExitStatus, RankExit, Stream};

/// Most bytes that a copying process moves at once.
const COPY_BYTES: usize = 4096;
const SIGKILL: i32 = 9;
/// 100 %.
const WHOLE_PERCENT: u32 = 100;
/// Longest time of a computation, however slow its node: longer than any simulation, and short
/// enough for the clock's arithmetic.
const LONGEST: Duration = Duration::from_secs(1 << 33);

/// Collects the events of all processes.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: RefCell<VecDeque<HostEvent>>,
    news: Bell,
}

impl Events {
    pub(super) fn push(&self, event: HostEvent) {
        self.queue.borrow_mut().push_back(event);
        self.news.ring();
    }

    /// Drops the events, since the node manager that was to receive them is gone.
    pub(super) fn clear(&self) {
        self.queue.borrow_mut().clear();
    }

    pub(super) async fn next(&self) -> HostEvent {
        self.news.until(|| self.queue.borrow_mut().pop_front()).await
    }
}

/// Stops and resumes all processes of a job, and holds their speed.
#[derive(Debug)]
pub(super) struct Freezer {
    frozen: Cell<bool>,
    /// The time of a computation in percent of its nominal time.
    percent: Cell<u32>,
    changed: Bell,
}

impl Freezer {
    pub(super) fn new(frozen: bool, percent: u32) -> Freezer {
        let (frozen, percent) = (Cell::new(frozen), Cell::new(percent));
        Freezer { frozen, percent, changed: Bell::default() }
    }

    pub(super) fn set(&self, frozen: bool) {
        self.frozen.set(frozen);
        self.changed.ring();
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.get()
    }

    pub(super) fn slow(&self, percent: u32) {
        self.percent.set(percent);
        self.changed.ring();
    }

    /// Waits until processes that run at this pace are stopped, or change their pace.
    async fn disturbed(&self, percent: u32) {
        let sound = || !self.frozen.get() && self.percent.get() == percent;
        self.changed.until(|| (!sound()).then_some(())).await;
    }

    async fn resumed(&self) {
        self.changed.until(|| (!self.frozen.get()).then_some(())).await;
    }
}

pub(super) struct Process<R> {
    pub(super) runtime: R,
    model: Rc<Model>,
    /// The daemon's time, if the daemon shares the processor.
    daemon: Option<Rc<DaemonTime>>,
    /// Its share of a processor, if processes of other jobs run on the same processor.
    share: RefCell<Option<Rc<Share>>>,
    pub(super) job: JobKey,
    pub(super) rank: Rank,
    /// Number of ranks of the job.
    size: u32,
    pub(super) script: Script,
    pub(super) freezer: Rc<Freezer>,
    pub(super) events: Rc<Events>,
    pub(super) stdin: Pipe,
    pub(super) stdout: Pipe,
    pub(super) stderr: Pipe,
    /// CPU time used, without the present computation.
    cpu: Cell<Duration>,
    /// Start of the present computation, and the daemon's time on the same processor up to then.
    computing_since: Cell<Option<(Instant, Duration)>>,
    pub(super) ended: Cell<bool>,
    signals: RefCell<VecDeque<i32>>,
    signalled: Bell,
    replies: RefCell<VecDeque<String>>,
    replied: Bell,
    /// The events of its start and end that the node manager received.
    told: RefCell<Vec<HostEvent>>,
    /// The PMI request that waits for its answer.
    open_request: RefCell<Option<OpenRequest>>,
}

/// A request over PMI.
#[derive(Clone, Debug)]
pub(super) struct OpenRequest {
    pub(super) line: String,
    /// Whether the request is in the ledger of the job.
    pub(super) logged: bool,
}

impl<R> std::fmt::Debug for Process<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("job", &self.job)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Process<R> {
    pub(super) fn new(
        runtime: R,
        (model, daemon): (Rc<Model>, Option<Rc<DaemonTime>>),
        (job, rank, size): (JobKey, Rank, u32),
        script: Script,
        freezer: Rc<Freezer>,
        events: Rc<Events>,
    ) -> Process<R> {
        Process {
            runtime,
            model,
            daemon,
            share: RefCell::default(),
            job,
            rank,
            size,
            script,
            freezer,
            events,
            stdin: Pipe::default(),
            stdout: Pipe::default(),
            stderr: Pipe::default(),
            cpu: Cell::default(),
            computing_since: Cell::default(),
            ended: Cell::default(),
            signals: RefCell::default(),
            signalled: Bell::default(),
            replies: RefCell::default(),
            replied: Bell::default(),
            told: RefCell::default(),
            open_request: RefCell::default(),
        }
    }

    /// CPU time used up to now.
    pub(super) fn cpu_time(&self) -> Duration {
        let current = self.computing_since.get().map(|since| self.used_since(since));
        self.cpu.get() + current.unwrap_or_default()
    }

    /// CPU time of a computation since then: all of the time except the daemon's.
    fn used_since(&self, (since, daemon): (Instant, Duration)) -> Duration {
        let now = self.runtime.now();
        (now - since).saturating_sub(self.daemon_until(now) - daemon)
    }

    fn daemon_until(&self, now: Instant) -> Duration {
        self.daemon.as_ref().map_or(Duration::ZERO, |daemon| daemon.until(now))
    }

    /// From its next step on, shares a processor with processes of other jobs, or not.
    pub(super) fn set_share(&self, share: Option<Share>) {
        *self.share.borrow_mut() = share.map(Rc::new);
    }

    /// Its share of a processor.
    pub(super) fn share(&self) -> Option<Rc<Share>> {
        self.share.borrow().clone()
    }

    /// Whether it communicates with peers by a library that reports on it.
    pub(super) fn communicates(&self) -> bool {
        self.script.steps.iter().any(Step::communicates)
    }

    pub(super) fn signal(&self, signal: i32) {
        self.signals.borrow_mut().push_back(signal);
        self.signalled.ring();
    }

    /// The events of its start and end, for a new node manager.
    pub(super) fn known_events(&self) -> Vec<HostEvent> {
        self.told.borrow().clone()
    }

    /// The request that waits for an answer, unless the process has ended.
    pub(super) fn open_request(&self) -> Option<OpenRequest> {
        self.open_request.borrow().clone().filter(|_| !self.ended.get())
    }

    /// Notes that its open request was taken, and whether it is in the ledger.
    pub(super) fn request_taken(&self, logged: bool) {
        if let Some(open) = &mut *self.open_request.borrow_mut() {
            open.logged = logged;
        }
    }

    fn tell(&self, event: HostEvent) {
        self.told.borrow_mut().push(event.clone());
        self.events.push(event);
    }

    pub(super) fn reply(&self, line: &str) {
        self.open_request.take();
        self.replies.borrow_mut().push_back(line.to_owned());
        self.replied.ring();
    }

    pub(super) fn output(&self, stream: Stream) -> &Pipe {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    /// The life of the process from the order to start; hangs for `stall` before it executes.
    pub(super) async fn live(&self, stall: Duration) {
        let status = {
            let life = pin!(self.follow_script(stall));
            let death = pin!(self.fatal_signal());
            // Death first, as a process that is killed does nothing any more.
            match select(death, life).await {
                Either::Left((signal, _)) => Some(ExitStatus::Signal(signal)),
                Either::Right((status, _)) => status,
            }
        };
        // A signal may end it in the middle of a computation. The parent's delay to notice is not
        // CPU time of the process.
        self.cpu.set(self.cpu_time());
        self.computing_since.set(None);
        self.set_share(None);
        let reaped_after = (self.model.extra)(Activity::Exit);
        if !reaped_after.is_zero() {
            self.runtime.sleep(reaped_after).await;
        }
        self.ended.set(true);
        self.stdin.close();
        if !self.script.leaves_child {
            self.stdout.close();
            self.stderr.close();
        }
        // A process that never executed has already reported.
        let Some(status) = status else { return };
        let user_us = u64::try_from(self.cpu.get().as_micros()).unwrap_or(u64::MAX);
        (self.model.observer)(&HostAct::Exit { job: self.job, rank: self.rank });
        let exit = RankExit { rank: self.rank, status, user_us, system_us: 0, max_rss_kib: 1024 };
        self.tell(HostEvent::Exited { job: self.job, exit });
    }

    async fn follow_script(&self, stall: Duration) -> Option<ExitStatus> {
        let (job, rank) = (self.job, self.rank);
        self.use_cpu(stall + self.model.exec_time + (self.model.extra)(Activity::Exec)).await;
        self.cpu.set(Duration::ZERO);
        if let Some(refused) = self.script.exec_failure.clone() {
            self.tell(HostEvent::LaunchFailed { job, rank, refused });
            return None;
        }
        self.tell(HostEvent::Launched { job, rank });
        self.take_all(&self.script.steps).await;
        self.freezer.resumed().await;
        Some(self.script.status)
    }

    async fn take_all(&self, steps: &[Step]) {
        for step in steps {
            self.freezer.resumed().await;
            match step {
                Step::Repeat { times, steps } => self.repeat(*times, steps).await,
                step => self.take(step).await,
            }
        }
    }

    fn repeat<'a>(&'a self, times: u32, steps: &'a [Step]) -> LocalBoxFuture<'a, ()> {
        async move {
            for _ in 0..times {
                self.take_all(steps).await;
            }
        }
        .boxed_local()
    }

    async fn take(&self, step: &Step) {
        let here = Endpoint { job: self.job, rank: self.rank };
        match step {
            // Handled by `take_all`, which can call itself.
            Step::Repeat { .. } => {}
            Step::Compute(time) => self.use_cpu(*time).await,
            Step::Send { to, bytes } => {
                let overhead = self.model.exchange.send(here, *to, *bytes);
                self.use_cpu(overhead).await;
            }
            Step::Receive { from } => {
                self.await_peers(self.model.exchange.receive(here, *from), false).await;
            }
            Step::Barrier => {
                self.await_peers(self.model.exchange.barrier(here, self.size), true).await;
            }
            Step::Write(..)
            | Step::Echo
            | Step::Put { .. }
            | Step::Fence
            | Step::Get { .. }
            | Step::Abort { .. } => {
                let share = self.share();
                if let Some(share) = &share {
                    share.sleep();
                }
                self.talk(step).await;
                if let Some(share) = &share {
                    share.wake();
                }
            }
        }
    }

    /// Waits for a message, or for the others at a barrier.
    async fn await_peers(&self, news: LocalBoxFuture<'static, ()>, all: bool) {
        let Some(share) = self.share() else { return news.await };
        let used = share.await_news(&self.runtime, news, all).await;
        self.cpu.set(self.cpu.get() + used);
    }

    /// The steps that involve anything outside its job's network.
    async fn talk(&self, step: &Step) {
        match step {
            Step::Write(stream, data) => self.output(*stream).write(data.clone()).await,
            Step::Echo => {
                while let Some(data) = self.stdin.read(COPY_BYTES).await {
                    self.stdout.write(data).await;
                }
            }
            Step::Put { key, value } => {
                let kvs = self.kvs();
                self.ask(&format!("cmd=put kvsname={kvs} key={key} value={value}")).await;
            }
            Step::Fence => {
                self.ask("cmd=barrier_in").await;
            }
            Step::Get { key } => {
                let kvs = self.kvs();
                let line = self.ask(&format!("cmd=get kvsname={kvs} key={key}")).await;
                let value = line.split_once(" value=").map_or("", |(_, value)| value);
                self.stdout.write(Bytes::from(value.to_owned())).await;
            }
            Step::Abort { exit_code } => {
                self.ask(&format!("cmd=abort exitcode={exit_code}")).await;
            }
            // Handled by `take`.
            Step::Compute(_)
            | Step::Repeat { .. }
            | Step::Send { .. }
            | Step::Receive { .. }
            | Step::Barrier => {}
        }
    }

    fn kvs(&self) -> String {
        format!("storm-{}-{}", self.job.step.job, self.job.incarnation.0)
    }

    async fn ask(&self, line: &str) -> String {
        let (job, rank, line) = (self.job, self.rank, line.to_owned());
        self.open_request.replace(Some(OpenRequest { line: line.clone(), logged: false }));
        self.events.push(HostEvent::Pmi { job, rank, line });
        self.replied.until(|| self.replies.borrow_mut().pop_front()).await
    }

    /// Uses CPU time, which passes only while the job is not stopped, and takes longer if the node
    /// is slow.
    async fn use_cpu(&self, mut left: Duration) {
        if let Some(share) = self.share() {
            let used = share.compute(&self.runtime, at_pace(left, self.freezer.percent.get()));
            self.cpu.set(self.cpu.get() + used.await);
            return;
        }
        while !left.is_zero() {
            self.freezer.resumed().await;
            let percent = self.freezer.percent.get();
            let takes = at_pace(left, percent);
            let now = self.runtime.now();
            let begun = (now, self.daemon_until(now));
            self.computing_since.set(Some(begun));
            // In both cases the clock shows how much was used.
            let _ = self.runtime.timeout(takes, self.freezer.disturbed(percent)).await;
            let used = self.used_since(begun).min(takes);
            self.computing_since.set(None);
            self.cpu.set(self.cpu.get() + used);
            left =
                if used == takes { Duration::ZERO } else { left - done(used, percent).min(left) };
        }
    }

    /// The first signal that ends the process. Only SIGKILL acts on a stopped process.
    async fn fatal_signal(&self) -> i32 {
        loop {
            let next = || self.signals.borrow_mut().pop_front();
            let signal = self.signalled.until(next).await;
            if signal == SIGKILL {
                return signal;
            }
            let resumed = pin!(self.freezer.resumed());
            let killed = || self.signals.borrow().contains(&SIGKILL).then_some(());
            match select(resumed, pin!(self.signalled.until(killed))).await {
                Either::Left(_) if self.script.ignores.contains(&signal) => {}
                Either::Left(_) => return signal,
                Either::Right(_) => return SIGKILL,
            }
        }
    }
}

/// The duration of a computation of `time` at a pace.
fn at_pace(time: Duration, percent: u32) -> Duration {
    let ns = time.as_nanos() * u128::from(percent) / u128::from(WHOLE_PERCENT);
    u64::try_from(ns).map_or(LONGEST, Duration::from_nanos).min(LONGEST)
}

/// The part of a computation that is done after `used` at a pace.
fn done(used: Duration, percent: u32) -> Duration {
    let ns = used.as_nanos() * u128::from(WHOLE_PERCENT) / u128::from(percent.max(1));
    u64::try_from(ns).map_or(LONGEST, Duration::from_nanos)
}
