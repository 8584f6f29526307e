//! Follows a job: shows its output, sends it our input, and cancels it on an interruption.

mod away;
mod input;
mod labeller;
mod queue_notes;
mod returning;
mod sent_input;
mod shown;
mod signals;
mod step;
mod terminal;
mod whole_lines;
mod without_pmix;

use crate::failure::{EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_STORM_FAILED, Failure};
use crate::manager::Manager;
use crate::outcome::Outcome;
use away::AwayNotes;
use bytes::Bytes;
use input::{Given, Input, Trouble};
pub(crate) use queue_notes::QueueNotes;
use sent_input::SentInput;
use shown::Shown;
use signals::EXIT_HUNG_UP;
pub(crate) use signals::Interrupts;
use std::future::ready;
use std::io;
use std::time::{Duration, Instant};
pub(crate) use step::{OwnStep, STEP_WAITS, StepWaiting};
use storm_mm::api::{
    Client, ClientError, ClientReplies, ClientRequests, JobState, ManagerRequest, Reply, ReplyLine,
};
use storm_rm::{InputSpec, JobId, JobIncarnation};
pub(crate) use terminal::OutputForm;
use terminal::Terminal;
use without_pmix::WithoutPmix;

/// The job to follow, and how.
#[derive(Clone, Debug)]
pub(crate) struct Follow {
    pub(crate) job: JobId,
    /// The step of the job, if it is not the job itself that is followed.
    pub(crate) step: Option<OwnStep>,
    /// The request whose replies are the job's events.
    pub(crate) request: u64,
    /// The input that it reads.
    pub(crate) input: InputSpec,
    pub(crate) form: OutputForm,
    /// Whether a manager that goes away may return at the same address, with the job.
    pub(crate) may_return: bool,
    /// Whether to report why the job waits, if it waits for more than a moment.
    pub(crate) tell_waiting: bool,
}

/// A second interruption within this time counts as the first: timeout(1) and a terminal that
/// closes signal both the process and its group.
const SAME_INTERRUPTION: Duration = Duration::from_secs(1);

/// Follows a job until it has ended. The first interruption cancels it; after the second, the
/// caller is to clean up and leave. The job is cancelled as well when its output has no reader any
/// more, as in `storm run ... | head`. If the manager goes away and `may_return`, waits for its
/// next incarnation.
pub(crate) async fn follow(
    client: Client,
    what: Follow,
    manager: &Manager,
) -> Result<Outcome, Failure> {
    let (requests, mut replies) = client.split();
    let mut interrupts = Interrupts::listen()?;
    let (form, tell_waiting, may_return) = (what.form, what.tell_waiting, what.may_return);
    let of_job = what.step.is_none();
    let mut follower = Follower {
        input: Input::start(&what.input),
        what,
        requests,
        run: JobIncarnation::default(),
        sent_input: SentInput::default(),
        resend: false,
        input_failure: None,
        awaiting_ok: None,
        running: false,
        suspended: false,
        queue_notes: QueueNotes::new(tell_waiting && of_job),
        away_notes: AwayNotes::default(),
        terminal: Terminal::new(form),
        shown: Shown::default(),
        without_pmix: WithoutPmix::default(),
        node_list: None,
        interrupted: None,
        lost: false,
    };
    follower.begin_step().await?;
    let outcome = loop {
        let outcome = follower.run(&mut replies, &mut interrupts).await;
        if !follower.lost || !may_return {
            break outcome;
        }
        match follower.find_again(manager, &mut interrupts).await {
            Ok(found) => replies = found,
            Err(failure) => break Err(failure),
        }
    };
    follower.terminal.finish().await;
    let outcome = outcome?;
    match follower.terminal.failure(outcome.job).or_else(|| follower.cut_input(&outcome)) {
        Some(failure) => Err(failure),
        None => Ok(outcome),
    }
}

struct Follower {
    what: Follow,
    requests: ClientRequests,
    input: Input,
    /// The run that the job was last told to be in, and its input.
    run: JobIncarnation,
    sent_input: SentInput,
    /// Whether input that may not have arrived must be sent to the manager that is back.
    resend: bool,
    /// The error that ended our standard input early.
    input_failure: Option<io::Error>,
    /// The request that must be answered before the next input is sent.
    awaiting_ok: Option<u64>,
    /// Whether the job runs. Input that is sent earlier would be lost.
    running: bool,
    /// Whether the user knows that the job is suspended.
    suspended: bool,
    queue_notes: QueueNotes,
    away_notes: AwayNotes,
    terminal: Terminal,
    shown: Shown,
    without_pmix: WithoutPmix,
    node_list: Option<String>,
    interrupted: Option<Interruption>,
    /// Whether the connection to the manager is gone.
    lost: bool,
}

/// A cancellation by us.
#[derive(Clone, Copy, Debug)]
struct Interruption {
    /// Our exit status.
    status: u8,
    at: Instant,
}

impl Follower {
    async fn run(
        &mut self,
        replies: &mut ClientReplies,
        interrupts: &mut Interrupts,
    ) -> Result<Outcome, Failure> {
        loop {
            let may_send = self.running && self.awaiting_ok.is_none();
            if may_send && self.resend {
                self.send_again().await?;
                continue;
            }
            let holds_output = self.terminal.holds_output();
            // Output is flushed when no more of it is available. Input waits for its answer in
            // between, and takes no turn from the replies.
            tokio::select! {
                biased;
                status = interrupts.next() => self.interrupt(status).await?,
                given = self.input.next(may_send) => match given {
                    Given::Block(data) => self.send_input(data).await?,
                    Given::Trouble(trouble) => self.take_trouble(trouble).await?,
                },
                line = replies.next() => {
                    let line = line.and_then(|line| line.ok_or(ClientError::Closed));
                    let line = line.map_err(|error| self.lose(error))?;
                    if let Some(outcome) = self.take(line).await? {
                        return Ok(outcome);
                    }
                }
                () = self.queue_notes.due(), if self.interrupted.is_none() => {
                    let explain = ManagerRequest::Explain { job: self.what.job };
                    self.requests.send(explain).await.map_err(|error| self.lose(error))?;
                    self.queue_notes.asked();
                }
                () = self.away_notes.due() => self.note_away().await,
                () = self.terminal.overdue() => self.terminal.pass_on().await,
                () = ready(()), if holds_output => {
                    self.terminal.flush().await;
                    self.look_at_reader().await?;
                }
            }
        }
    }

    /// Cancels the job if its output has no reader left, or cannot be written.
    async fn look_at_reader(&mut self) -> Result<(), Failure> {
        let status = if self.terminal.has_failed() { EXIT_STORM_FAILED } else { EXIT_BROKEN_PIPE };
        if self.terminal.reader_has_left() && self.interrupted.is_none() {
            self.cancel(status).await?;
        }
        Ok(())
    }

    fn input_is_answered(&mut self, reply: &Reply) {
        self.awaiting_ok = None;
        self.sent_input.answered();
        if let Reply::Error { .. } = reply {
            // The job reads no more: it is over, or has closed its input.
            self.input.stop();
        }
    }

    /// Acts on a reply. Returns the outcome if it was the last.
    async fn take(&mut self, line: ReplyLine) -> Result<Option<Outcome>, Failure> {
        if Some(line.id) == self.awaiting_ok {
            self.input_is_answered(&line.reply);
            return Ok(None);
        }
        match line.reply {
            Reply::Error { error } if line.id == self.what.request || line.id == 0 => {
                Err(error.into())
            }
            Reply::Output { run, rank, stream, offset, data, .. } => {
                let data = self.shown.fresh(run, (rank, stream), offset, data);
                self.without_pmix.look(stream, &data);
                self.terminal.write(rank, stream, &data).await;
                self.look_at_reader().await?;
                Ok(None)
            }
            Reply::NeedFiles { .. } => Err(self.files_are_lost()),
            Reply::Step { step, node_list, .. } => {
                self.node_list = node_list.or(self.node_list.take());
                self.is_step(step).await?;
                Ok(None)
            }
            Reply::Attached { state, run, away, .. } => {
                self.is_in_run(run);
                self.running = state == JobState::Running;
                self.nodes_are(away, None).await;
                self.queue_notes.is(state);
                Ok(None)
            }
            Reply::Explanation { explanation } => {
                if let Some(line) = self.queue_notes.line(&explanation) {
                    self.terminal.note(&line).await;
                }
                Ok(None)
            }
            Reply::State { node_list, state, run, away, reason, .. } => {
                self.is_in_run(run);
                self.nodes_are(away, reason.as_deref()).await;
                self.is_in_state((state, run), reason).await;
                self.node_list = node_list.or(self.node_list.take());
                Ok(None)
            }
            Reply::Ended { job, state, exit_code, reason, breakdown } => {
                self.note_away().await;
                let interrupted = self.interrupted.map(|interruption| interruption.status);
                let node_list = self.node_list.take();
                let without_pmix = self.without_pmix.was_said();
                Ok(Some(Outcome {
                    job,
                    step: self.what.step.as_ref().and_then(|step| step.number),
                    state,
                    exit_code,
                    interrupted,
                    reason,
                    breakdown,
                    node_list,
                    without_pmix,
                }))
            }
            // Answers to our cancellation, or an explanation that is no longer available.
            _ => Ok(None),
        }
    }

    /// The job enters a state.
    async fn is_in_state(
        &mut self,
        (state, run): (JobState, JobIncarnation),
        reason: Option<String>,
    ) {
        if let (JobState::Pending, Some(why)) = (state, &reason) {
            let job = self.what.job;
            self.terminal.note(&format!("job {job} waits again: {why}")).await;
        }
        self.note_suspension(state, reason).await;
        self.running = state == JobState::Running;
        if state == JobState::Pending {
            self.shown.waits(run);
            self.sent_input = SentInput::default();
        }
        self.queue_notes.is(state);
    }

    /// Takes note of whether nodes of the job are away, and why.
    async fn nodes_are(&mut self, away: bool, why: Option<&str>) {
        self.terminal.may_be_late(away);
        if let Some(news) = self.away_notes.are(away, why, Instant::now().into()) {
            let name = self.name();
            self.terminal.note(&format!("{name}: {news}")).await;
        }
    }

    /// Tells the user why output does not come, if there is a reason to tell.
    async fn note_away(&mut self) {
        if let Some(why) = self.away_notes.take() {
            let name = self.name();
            self.terminal.note(&format!("{name}: {why}")).await;
        }
    }

    /// The job is in this run. Another run than before has got no input yet.
    fn is_in_run(&mut self, run: JobIncarnation) {
        if std::mem::replace(&mut self.run, run) != run {
            self.sent_input = SentInput::default();
        }
    }

    /// Reports to the user that the job is suspended, or that it continues.
    async fn note_suspension(&mut self, state: JobState, reason: Option<String>) {
        let (job, suspended) = (self.what.job, state == JobState::Suspended);
        match (std::mem::replace(&mut self.suspended, suspended), suspended) {
            (false, true) => {
                let why = reason.unwrap_or_else(|| "suspended".to_owned());
                self.terminal.note(&format!("job {job} is {why}")).await;
            }
            (true, false) if state == JobState::Running => {
                self.terminal.note(&format!("job {job} continues")).await;
            }
            _ => {}
        }
    }

    async fn interrupt(&mut self, status: u8) -> Result<(), Failure> {
        match self.interrupted {
            None => self.cancel(status).await,
            Some(first) if first.at.elapsed() < SAME_INTERRUPTION => Ok(()),
            Some(_) => Err(Failure::new("interrupted", "interrupted twice: storm leaves at once")
                .exit(EXIT_INTERRUPTED)),
        }
    }

    async fn send_input(&mut self, data: Bytes) -> Result<(), Failure> {
        self.sent_input.sent(data.clone());
        let eof = data.is_empty();
        self.pass_input(self.of_input(data, eof, None)).await
    }

    /// Sends the input again that a manager that went away may not have passed on.
    async fn send_again(&mut self) -> Result<(), Failure> {
        self.resend = false;
        let Some((begins_at, data, eof)) = self.sent_input.in_doubt() else { return Ok(()) };
        let resent_from = Some(begins_at);
        self.pass_input(self.of_input(data, eof, resent_from)).await
    }

    fn of_input(&self, data: Bytes, eof: bool, resent_from: Option<u64>) -> ManagerRequest {
        let ask = self.what.step.as_ref().map(|step| step.ask);
        ManagerRequest::Input { job: self.what.job, data, eof, resent_from, ask }
    }

    async fn pass_input(&mut self, input: ManagerRequest) -> Result<(), Failure> {
        let sent = self.requests.send(input).await;
        self.awaiting_ok = Some(sent.map_err(|error| self.lose(error))?);
        Ok(())
    }

    /// Cancels a job whose input breaks off: the job would take the part for the whole.
    async fn take_trouble(&mut self, trouble: Trouble) -> Result<(), Failure> {
        let status = match trouble {
            Trouble::HungUp => EXIT_HUNG_UP,
            Trouble::Failed(error) => {
                self.input_failure = Some(error);
                EXIT_STORM_FAILED
            }
        };
        match self.interrupted {
            None => self.cancel(status).await,
            Some(_) => Ok(()),
        }
    }

    /// The failure that the job did not get all of its input, if reading failed.
    fn cut_input(&self, outcome: &Outcome) -> Option<Failure> {
        let error = self.input_failure.as_ref()?;
        let (job, state) = (outcome.job, outcome.state);
        let text = match state {
            JobState::Cancelled => {
                format!("standard input cannot be read, so job {job} is cancelled")
            }
            _ => format!("standard input cannot be read; job {job} ended {state} meanwhile"),
        };
        let mut failure = Failure::new("input", text)
            .hint("give `< /dev/null` or --input none to a job that reads nothing")
            .exit(EXIT_STORM_FAILED);
        failure.causes.push(error.to_string());
        Some(failure)
    }

    async fn cancel(&mut self, status: u8) -> Result<(), Failure> {
        self.interrupted = Some(Interruption { status, at: Instant::now() });
        self.input.stop();
        self.requests.send(self.cancellation()).await.map_err(|error| self.lose(error))?;
        Ok(())
    }

    /// A failure for an error of the connection. Remembers if the connection is gone.
    fn lose(&mut self, error: ClientError) -> Failure {
        self.lost = matches!(error, ClientError::Closed | ClientError::Connection(_));
        if self.lost {
            self.terminal.may_be_late(true);
        }
        error.into()
    }
}
