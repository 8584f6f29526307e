//! A node: joins the root, then follows the views and carries out the operations that arrive from
//! the parent.

use super::core::{Core, Identity};
use super::link::{Link, ReadError};
use super::node_role::NodeRole;
use super::{handshake, parent};
use crate::config::{NodeConfig, check_reach, name_of};
use crate::join_error::JoinError;
use crate::observer::LinkKind;
use crate::runtime::TcpRuntime;
use crate::shared_memory::HostId;
use crate::stream::Stream;
use crate::wire::{
    FrameBuffer, FromNode, FromRoot, Hello, Join, JoinAnswer, PROTOCOL_VERSION, Refusal, View,
    Welcome, encode,
};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::Runtime;

/// The first pause after an attempt in which the root was not reached.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Pauses double up to this. Jobs wait for a restarted root, so the limit is short. A try costs the
/// host of an absent root only a refused connection.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause of a node that the root refuses; pauses double up to it. An operator removes
/// the cause, and each try costs the root a handshake.
const MAX_REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// How many times per `root_timeout` a node checks whether the root is alive.
const LOOKS: u32 = 8;

/// Joins with these settings. Retries while the root is absent, or still counts an earlier
/// incarnation of this node as alive.
pub(crate) async fn join(mut config: NodeConfig) -> Result<Rc<Core>, JoinError> {
    let runtime = TcpRuntime::new()?;
    for addr in [config.listen, config.root] {
        check_reach(config.trust.as_ref(), addr)?;
    }
    let listener = storm_session::listen(config.listen)?;
    let deadline = runtime.now() + config.join_timeout;
    let mut pause = FIRST_PAUSE;
    let mut logged = LoggedErrors::default();
    let mut last = None;
    loop {
        let limit = deadline - runtime.now();
        let port = listener.local_addr()?.port();
        let tried = runtime.timeout(limit, attempt(&config, port)).await;
        let error = match tried {
            Some(Ok((stream, buffer, welcome))) => {
                return Ok(start(&config, runtime, listener, stream, buffer, &welcome));
            }
            // Retry at once with the root's layout.
            Some(Err(JoinError::Refused(refusal))) if adopts(&mut config, &refusal) => continue,
            Some(Err(error)) => error,
            // The last failure tells more than a timeout.
            None => last.take().unwrap_or_else(|| JoinError::Io(io::ErrorKind::TimedOut.into())),
        };
        let again = match &error {
            JoinError::Io(_) | JoinError::NoAnswer => true,
            JoinError::Refused(Refusal::NameInUse { .. }) => true,
            JoinError::Session(_) => config.await_key,
            JoinError::Refused(Refusal::KeyNeeded { .. }) => config.await_key || config.persist,
            JoinError::Refused(Refusal::Fabric { .. }) => config.persist && !config.follows,
            JoinError::Refused(_) => config.persist,
        };
        if !again || runtime.now() + pause >= deadline {
            return Err(error);
        }
        logged.log(&config, &error);
        let longest = match &error {
            JoinError::Refused(Refusal::NameInUse { .. }) => MAX_PAUSE,
            JoinError::Refused(_) => MAX_REFUSED_PAUSE,
            JoinError::Io(_) | JoinError::NoAnswer | JoinError::Session(_) => MAX_PAUSE,
        };
        last = Some(error);
        pause = pause.min(longest);
        runtime.sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Whether this node can adopt the root's layout, which differs from its own.
fn adopts(config: &mut NodeConfig, refusal: &Refusal) -> bool {
    let Refusal::Layout { root, plan, .. } = refusal else { return false };
    let layout = config.adopt.make(plan).filter(|layout| layout.hash() == *root);
    let adopts = layout.is_some();
    if let Some(layout) = layout {
        tracing::info!(node = %config.name, "the plan of memory is now the manager's");
        config.layout = layout;
    }
    adopts
}

/// The reasons for which the node was not let in, as far as they are logged.
#[derive(Default)]
struct LoggedErrors {
    kinds: Vec<std::mem::Discriminant<JoinError>>,
    refusal: Option<Refusal>,
}

impl LoggedErrors {
    /// Logs the error unless it was logged before. A refusal is logged when it differs from the
    /// last refusal. Any other kind of error is logged once.
    fn log(&mut self, config: &NodeConfig, error: &JoinError) {
        let (manager, why) = (config.root, error.why());
        if let JoinError::Refused(refusal) = error {
            if self.refusal.as_ref() != Some(refusal) {
                self.refusal = Some(refusal.clone());
                let hint = refusal.hint();
                tracing::warn!(%manager, %refusal, %hint, "not let in; trying again");
            }
            return;
        }
        let kind = std::mem::discriminant(error);
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
            tracing::warn!(%manager, why, "not let in; trying again");
        }
    }
}

/// A connection to the root from the moment at which the node asks to join. If dropped before the
/// node starts, it sends `Parting` or ends with an error: the root would take a plain end for the
/// end of the process.
struct Asked(Option<Stream>);

impl Asked {
    /// The node starts, or was refused. From now on the caller decides how the stream ends.
    fn answered(mut self) -> Option<Stream> {
        self.0.take()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(stream) = self.0.take() else { return };
        let mut out = [encode(&FromNode::Parting, &[])].into_iter().collect();
        match stream.write_some(&mut out) {
            Ok(true) => stream.shutdown(),
            Ok(false) | Err(_) => stream.break_off(),
        }
    }
}

async fn attempt(
    config: &NodeConfig,
    port: u16,
) -> Result<(Stream, FrameBuffer, Welcome), JoinError> {
    let stream = Stream::connect(config.root, config.trust.as_ref()).await?;
    let mut listen = config.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(stream.local_addr()?.ip());
    }
    listen.set_port(port);
    let hello = Hello::Join(Join {
        version: PROTOCOL_VERSION,
        cluster: config.cluster.clone(),
        name: config.name.clone(),
        layout: config.layout.hash(),
        listen,
        fabric: name_of(config.fabric.as_ref()).to_owned(),
        host: (config.by_reference && config.fabric.is_none()).then(HostId::own).flatten(),
    });
    let mut out = [encode(&hello, &[])].into_iter().collect();
    if !stream.write_some(&mut out)? {
        return Err(JoinError::NoAnswer);
    }
    let mut asked = Asked(Some(stream));
    let mut buffer = FrameBuffer::new();
    let answer = read_answer(&mut asked, &mut buffer).await?;
    let stream = asked.answered().ok_or(JoinError::NoAnswer)?;
    match answer {
        JoinAnswer::Welcome(welcome) => Ok((stream, buffer, welcome)),
        JoinAnswer::Refused(refusal) => Err(JoinError::Refused(refusal)),
    }
}

async fn read_answer(asked: &mut Asked, buffer: &mut FrameBuffer) -> Result<JoinAnswer, JoinError> {
    let Some(stream) = &mut asked.0 else { return Err(JoinError::NoAnswer) };
    loop {
        // The root's first view may already be in the buffer, and may be long.
        if let Some(frame) = buffer.next_frame().map_err(|_| JoinError::NoAnswer)? {
            return frame.message().map_err(|_| JoinError::NoAnswer);
        }
        if stream.read(buffer.spare()).await? == 0 {
            return Err(JoinError::NoAnswer);
        }
    }
}

fn start(
    config: &NodeConfig,
    runtime: TcpRuntime,
    listener: tokio::net::TcpListener,
    stream: Stream,
    mut buffer: FrameBuffer,
    welcome: &Welcome,
) -> Rc<Core> {
    buffer.admit();
    let core = Core::new(Identity {
        node: welcome.node,
        name: config.name.clone(),
        incarnation: welcome.incarnation,
        cluster: config.cluster.clone(),
        trust: config.trust.clone(),
        layout: config.layout.clone(),
        fanout: welcome.fanout,
        request_window: welcome.request_window as usize,
        inline_limit_bytes: u64::from(welcome.inline_limit_bytes),
        by_reference: config.by_reference,
        runtime,
        fabric: config.fabric.clone(),
        observer: config.observer.clone(),
    });
    let control = Link::new(stream, LinkKind::Control, config.observer.clone());
    control.set_last_word(Some(encode(&FromNode::Parting, &[])));
    let role = Rc::new(NodeRole::new(control.clone(), config.root, welcome));
    // The cell is empty: this is the only place that fills it for a node.
    let _ = core.role.set(role.clone());
    core.start();
    core.keep(handshake::accept_all(core.clone(), listener));
    core.keep(control.clone().write_rest());
    core.keep(watch_root(core.clone(), role.clone(), config.root_timeout));
    core.keep(follow(core.clone(), role, control, buffer));
    core
}

/// Follows the root's messages until the control link ends.
async fn follow(core: Rc<Core>, role: Rc<NodeRole>, control: Rc<Link>, mut buffer: FrameBuffer) {
    if let Err(error) = read_control(&core, &role, &control, &mut buffer).await {
        tracing::warn!(node = %core.name, %error, "the link to the root is closed");
    }
    tracing::info!(node = %core.name, "cut off from the cluster");
    core.finish();
}

async fn read_control(
    core: &Rc<Core>,
    role: &Rc<NodeRole>,
    control: &Rc<Link>,
    buffer: &mut FrameBuffer,
) -> Result<(), ReadError> {
    while let Some(frames) = control.read(buffer, LinkKind::Control).await? {
        role.hear();
        for frame in frames {
            match frame.message::<FromRoot>()? {
                FromRoot::View(view) => {
                    core.on_view(&view).map_err(io::Error::other)?;
                    follow_view(core, role, &view);
                }
                FromRoot::Done { request, outcome } => {
                    core.initiator.borrow_mut().finish(request, outcome);
                    core.submit_issued();
                }
                FromRoot::Grant { request } => role.send_data(core, request),
                FromRoot::Ping { number } => {
                    core.send(control, encode(&FromNode::Pong { number }, &[]));
                }
            }
        }
        core.pump();
    }
    Ok(())
}

/// Ends the member if the root is silent for too long. A root that is cut off does not close its
/// links.
async fn watch_root(core: Rc<Core>, role: Rc<NodeRole>, limit: Duration) {
    let mut silent = 0;
    while silent < LOOKS {
        core.runtime.sleep(limit / LOOKS).await;
        silent = if role.take_heard() { 0 } else { silent + 1 };
    }
    tracing::warn!(node = %core.name, ?limit, "the root is silent");
    core.finish();
}

/// Moves the link to the parent of the new view.
fn follow_view(core: &Rc<Core>, role: &Rc<NodeRole>, view: &View) {
    let parent = core.engine.borrow().topology().parent(core.node).cloned();
    let Some(parent) = parent else { return };
    if let Some(express) = role.link_to(&parent) {
        return role.attach(core, &express);
    }
    role.leave_parent();
    if core.references.follow((parent.node, parent.incarnation)) {
        role.tell_references(core, true);
    }
    let dial = parent::connect(core.clone(), role.clone(), parent, view.epoch);
    role.set_dialing(core.runtime.spawn(dial));
}
