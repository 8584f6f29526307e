//! Primitives with one bug each, around the simulator's.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::conformance::Wrap;
use storm_primitives::middleware::Layer;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{
    CompareAndWrite, EventId, GlobalAddr, Membership, NodeSet, PrimitiveError, Primitives,
    Relation, Runtime, Signal, Xfer,
};

/// The defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A transfer leaves out the last node of its set.
    SkipsTheLastNode,
    /// A transfer also writes to the issuing node.
    WritesToItself,
    /// A transfer is split in two, one for each half of the set.
    SplitsTheSet,
    /// The remote event is signalled before the data.
    SignalsBeforeData,
    /// The remote event is signalled twice.
    SignalsTwice,
    /// Every seventh remote signal is lost.
    LosesSignals,
    /// The local event is signalled twice.
    ReportsTwice,
    /// The local event is signalled when the transfer is issued.
    ReportsAtOnce,
    /// A transfer to the empty set reports no status.
    SaysNothingOfNobody,
    /// Large transfers let small ones pass.
    LetsSmallOvertake,
    /// Every second transfer waits for the next one.
    SwapsPairs,
    /// Bytes beyond the last whole word are left out.
    CutsToWords,
    /// Bytes up to the end of the last word are overwritten.
    PadsToWords,
    /// Faulty arguments are reported as a success.
    HidesFaults,
    /// The first node of the set is blamed for a death.
    BlamesTheFirst,
    /// An operation on a set with dead nodes takes effect on the living ones, and reports a
    /// failure.
    ServesHalf,
    /// An operation on a set with dead nodes takes effect on the living ones, and reports a
    /// success.
    IgnoresTheDead,
    /// Only the first node of the set is compared.
    AsksOne,
    /// The issuing node is compared, not the set.
    AsksItself,
    /// Comparison and write are two operations.
    WritesLater,
    /// COMPARE-AND-WRITE writes although its comparison failed.
    WritesAnyway,
    /// The write reaches all nodes alive, not the set.
    WritesEverywhere,
    /// Large values count as negative.
    ComparesSigned,
    /// `>=` is `>`.
    ComparesStrictly,
    /// An empty set compares FALSE.
    NobodyIsFalse,
    /// A test takes two signals.
    TakesTwo,
    /// No node is notified of deaths.
    NeverTellsDeaths,
    /// A node keeps its membership from before the management node's death.
    SurvivesTheMm,
}

impl Wrap for Bug {
    type Wrapped = Mutant;

    fn wrap(&self, inner: SimPrimitives, _seed: u64) -> Mutant {
        let (view, real) = (Membership::new(), inner.membership().incarnations());
        real.into_iter().for_each(|(node, life)| view.joined(node, life));
        Mutant { inner, bug: *self, stale_view: view, count: Rc::default(), held: Rc::default() }
    }
}

/// The primitives of one node with a bug.
#[derive(Clone)]
pub(crate) struct Mutant {
    inner: SimPrimitives,
    bug: Bug,
    stale_view: Membership,
    count: Rc<Cell<u64>>,
    held: Rc<Cell<Option<Xfer>>>,
}

/// How long the mutant delays an operation that should not wait.
const DETOUR: Duration = Duration::from_millis(1);

impl Layer for Mutant {
    type Inner = SimPrimitives;

    fn inner(&self) -> &SimPrimitives {
        &self.inner
    }

    fn view(&self) -> &Membership {
        match self.bug {
            Bug::NeverTellsDeaths => &self.stale_view,
            _ => self.inner.membership(),
        }
    }

    fn on_test(&self, event: EventId) -> Option<Signal> {
        let signal = self.inner.test_event(event);
        if self.bug == Bug::TakesTwo {
            self.inner.test_event(event);
        }
        signal
    }

    fn on_xfer(&self, xfer: Xfer) {
        self.put(xfer);
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        self.clone().ask(caw)
    }
}

type Answer = Result<bool, PrimitiveError>;

impl Mutant {
    fn put(&self, mut xfer: Xfer) {
        let count = self.count.get() + 1;
        self.count.set(count);
        let to_nobody = xfer.dest.is_empty();
        match self.bug {
            Bug::SkipsTheLastNode if xfer.dest.len() > 1 => {
                xfer.dest.last().map(|last| xfer.dest.remove(last));
            }
            Bug::WritesToItself if !to_nobody => {
                xfer.dest.insert(self.node());
            }
            Bug::SplitsTheSet if xfer.dest.len() > 1 => return self.put_halves(xfer),
            Bug::SignalsBeforeData => {
                let event = xfer.remote_event.take();
                let signal = Xfer::new(xfer.dest.clone(), xfer.addr, Vec::new());
                self.inner.xfer_and_signal(Xfer { remote_event: event, ..signal });
            }
            Bug::SignalsTwice => {
                let signal = Xfer::new(xfer.dest.clone(), GlobalAddr(0), Vec::new());
                self.inner.xfer_and_signal(Xfer { remote_event: xfer.remote_event, ..signal });
            }
            Bug::LosesSignals if count.is_multiple_of(7) => xfer.remote_event = None,
            Bug::ReportsTwice => return self.report(xfer, |status| vec![status.clone(), status]),
            Bug::ReportsAtOnce => {
                if let Some(event) = xfer.local_event.take() {
                    self.events().signal(event, Ok(()));
                }
            }
            Bug::SaysNothingOfNobody if to_nobody => return,
            Bug::LetsSmallOvertake if xfer.data.len() > 1_000_000 => return self.put_later(xfer),
            Bug::SwapsPairs => return self.put_swapped(xfer),
            Bug::CutsToWords => xfer.data.truncate(xfer.data.len() / 8 * 8),
            Bug::PadsToWords => {
                let mut data = xfer.data.to_vec();
                data.resize(data.len().next_multiple_of(8), 0);
                xfer.data = data.into();
            }
            Bug::HidesFaults => {
                return self.report(xfer, |status| match status {
                    Err(PrimitiveError::NodesDead { .. }) => vec![status],
                    _ => vec![Ok(())],
                });
            }
            Bug::BlamesTheFirst => {
                let nodes: NodeSet = xfer.dest.first().into_iter().collect();
                return self.report(xfer, move |status| vec![blame(status, &nodes)]);
            }
            Bug::ServesHalf | Bug::IgnoresTheDead => return self.put_to_the_living(xfer),
            _ => {}
        }
        self.inner.xfer_and_signal(xfer);
    }

    /// Issues `xfer` and passes its status through `change`.
    fn report(&self, xfer: Xfer, change: impl FnOnce(Signal) -> Vec<Signal> + 'static) {
        let (inner, event) = (self.inner.clone(), xfer.local_event);
        let done = inner.events().local();
        inner.xfer_and_signal(Xfer { local_event: Some(done.id()), ..xfer });
        self.later(async move {
            let status = inner.await_event(done.id()).await;
            if let Some(event) = event {
                change(status).into_iter().for_each(|s| inner.events().signal(event, s));
            }
        });
    }

    fn put_halves(&self, xfer: Xfer) {
        let (low, high) = xfer.dest.halves();
        let inner = self.inner.clone();
        let local_event = None;
        let done = [inner.events().local(), inner.events().local()];
        for (dest, done) in [low, high].into_iter().zip(&done) {
            let half = Xfer { dest, local_event, ..xfer.clone() };
            inner.xfer_and_signal(half.signal_local(done.id()));
        }
        self.later(async move {
            let mut status = Ok(());
            for done in &done {
                status = status.and(inner.await_event(done.id()).await);
            }
            if let Some(event) = xfer.local_event {
                inner.events().signal(event, status);
            }
        });
    }

    fn put_later(&self, xfer: Xfer) {
        let inner = self.inner.clone();
        self.later(async move {
            inner.runtime().sleep(DETOUR).await;
            inner.xfer_and_signal(xfer);
        });
    }

    fn put_swapped(&self, xfer: Xfer) {
        let Some(earlier) = self.held.take() else {
            self.held.set(Some(xfer));
            let this = self.clone();
            self.later(async move {
                this.runtime().sleep(DETOUR).await;
                if let Some(alone) = this.held.take() {
                    this.inner.xfer_and_signal(alone);
                }
            });
            return;
        };
        self.inner.xfer_and_signal(xfer);
        self.inner.xfer_and_signal(earlier);
    }

    fn put_to_the_living(&self, xfer: Xfer) {
        let (this, again) = (self.clone(), xfer.clone());
        self.report(xfer, move |status| {
            let Err(PrimitiveError::NodesDead { nodes }) = &status else { return vec![status] };
            let dest = again.dest.difference(nodes);
            this.inner.xfer_and_signal(Xfer { dest, local_event: None, ..again });
            vec![if this.bug == Bug::IgnoresTheDead { Ok(()) } else { status }]
        });
    }

    fn later(&self, work: impl Future<Output = ()> + 'static) {
        self.runtime().spawn(work).detach();
    }

    fn ask(self, mut caw: CompareAndWrite) -> Pin<Box<dyn Future<Output = Answer>>> {
        let inner = self.inner.clone();
        let write = caw.write;
        match self.bug {
            Bug::AsksOne => {
                let rest = CompareAndWrite { set: caw.set.clone(), ..caw.clone() };
                caw.set = caw.set.first().into_iter().collect();
                caw.write = None;
                Box::pin(async move {
                    let answer = inner.compare_and_write(caw).await?;
                    if answer {
                        write_to(&inner, &rest.set, write).await?;
                    }
                    Ok(answer)
                })
            }
            Bug::AsksItself => Box::pin(async move {
                let word = inner.memory().load_word(caw.var)?;
                let answer = caw.relation.holds(word, caw.value);
                if answer {
                    write_to(&inner, &caw.set, write).await?;
                }
                Ok(answer)
            }),
            Bug::WritesLater | Bug::WritesAnyway | Bug::WritesEverywhere => {
                caw.write = None;
                let set = match self.bug {
                    Bug::WritesEverywhere => inner.membership().alive(),
                    _ => caw.set.clone(),
                };
                Box::pin(async move {
                    let answer = inner.compare_and_write(caw).await?;
                    if answer || self.bug == Bug::WritesAnyway {
                        write_to(&inner, &set, write).await?;
                    }
                    Ok(answer)
                })
            }
            Bug::ComparesSigned if caw.value >= 1 << 63 && caw.relation == Relation::Less => {
                caw.relation = Relation::GreaterOrEqual;
                Box::pin(inner.compare_and_write(caw))
            }
            Bug::ComparesStrictly if caw.relation == Relation::GreaterOrEqual => {
                caw.value = caw.value.saturating_add(1);
                Box::pin(inner.compare_and_write(caw))
            }
            Bug::NobodyIsFalse if caw.set.is_empty() => Box::pin(async { Ok(false) }),
            Bug::BlamesTheFirst => {
                let nodes: NodeSet = caw.set.first().into_iter().collect();
                let answer = inner.compare_and_write(caw);
                Box::pin(async move { blame(answer.await, &nodes) })
            }
            Bug::SurvivesTheMm => {
                let answer = inner.compare_and_write(caw);
                Box::pin(async move {
                    match answer.await {
                        Err(PrimitiveError::Disconnected) => Ok(true),
                        answer => answer,
                    }
                })
            }
            _ => Box::pin(inner.compare_and_write(caw)),
        }
    }
}

async fn write_to(
    inner: &SimPrimitives,
    set: &NodeSet,
    write: Option<(GlobalAddr, u64)>,
) -> Result<(), PrimitiveError> {
    let Some((addr, value)) = write else { return Ok(()) };
    let data = value.to_ne_bytes().to_vec();
    inner.xfer_and_wait(Xfer::new(set.clone(), addr, data)).await
}

fn blame<T>(result: Result<T, PrimitiveError>, nodes: &NodeSet) -> Result<T, PrimitiveError> {
    result.map_err(|error| match error {
        PrimitiveError::NodesDead { .. } => PrimitiveError::NodesDead { nodes: nodes.clone() },
        other => other,
    })
}
