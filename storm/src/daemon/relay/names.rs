//! The names of users for a relay. A name service may take arbitrarily long, so it is queried away
//! from the relay's thread. There is one query at a time for each user.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_session::UserName;
use tokio::sync::watch;

/// An older name is requested again, and not used: the uid may be another user's by now.
const NAME_IS_FRESH: Duration = Duration::from_secs(60);
/// Most users whose names are remembered.
const NAMES_MAX: usize = 4096;

/// An answer that has not arrived yet.
pub(super) type Asking = Pin<Box<dyn Future<Output = io::Result<Option<UserName>>>>>;

/// The names of users by number.
pub(super) struct Names<R> {
    runtime: R,
    ask: Box<dyn Fn(u32) -> Asking>,
    known: RefCell<HashMap<u32, Known>>,
}

/// The known facts about a uid.
struct Known {
    asked: Instant,
    answer: watch::Receiver<Option<Answer>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Name(UserName),
    /// No user has this number, or the name cannot be one of a cluster's user.
    NoName,
    /// The name service failed. The next client causes another query.
    Failed,
}

impl<R: Runtime> Names<R> {
    /// Answers by `ask`.
    pub(super) fn by(runtime: R, ask: impl Fn(u32) -> Asking + 'static) -> Rc<Names<R>> {
        Rc::new(Names { runtime, ask: Box::new(ask), known: RefCell::default() })
    }

    /// The name of a user; waits as long as the name service does.
    pub(super) async fn of(&self, uid: u32) -> Option<UserName> {
        let mut answer = self.answer(uid);
        let told = answer.wait_for(Option::is_some).await.ok()?.clone();
        match told? {
            Answer::Name(name) => Some(name),
            Answer::NoName | Answer::Failed => None,
        }
    }

    /// Sends a query, unless the answer is known and fresh or on its way.
    fn answer(&self, uid: u32) -> watch::Receiver<Option<Answer>> {
        let now = self.runtime.now();
        let mut known = self.known.borrow_mut();
        if let Some(found) = known.get(&uid)
            && found.counts_at(now)
        {
            return found.answer.clone();
        }
        if known.len() >= NAMES_MAX {
            known.retain(|_, known| known.is_awaited());
        }
        if known.len() >= NAMES_MAX {
            // All these users still wait for the name service.
            return watch::channel(Some(Answer::Failed)).1;
        }
        let (tell, answer) = watch::channel(None);
        let asking = (self.ask)(uid);
        let asked = async move {
            let told = match asking.await {
                Ok(Some(name)) => Answer::Name(name),
                Ok(None) => Answer::NoName,
                Err(error) => {
                    tracing::warn!(uid, %error, "this host cannot tell the name of a user");
                    Answer::Failed
                }
            };
            // Perhaps nobody waits any more.
            let _ = tell.send(Some(told));
        };
        self.runtime.spawn(asked).detach();
        known.insert(uid, Known { asked: now, answer: answer.clone() });
        answer
    }
}

impl Known {
    fn is_awaited(&self) -> bool {
        // A querying task that was dropped answers no more.
        self.answer.borrow().is_none() && self.answer.has_changed().is_ok()
    }

    fn counts_at(&self, now: Instant) -> bool {
        let is_told = matches!(&*self.answer.borrow(), Some(Answer::Name(_) | Answer::NoName));
        self.is_awaited() || (is_told && now < self.asked + NAME_IS_FRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use storm_primitives::sim::Simulation;

    fn named(name: &str) -> UserName {
        name.parse().expect("a name")
    }

    #[test]
    fn a_name_is_remembered_for_a_minute_and_then_asked_anew() {
        let world = Simulation::new(1);
        let runtime = world.runtime();
        let asked = Rc::new(Cell::new(0));
        let test = async move {
            let count = asked.clone();
            let names = Names::by(runtime.clone(), move |uid| {
                count.set(count.get() + 1);
                let name = if uid == 7 { Some(format!("user{}", count.get())) } else { None };
                Box::pin(async move { Ok(name.map(|name| named(&name))) })
            });
            for _ in 0..100 {
                assert_eq!(names.of(7).await, Some(named("user1")));
                assert_eq!(names.of(8).await, None, "no name is remembered as well");
            }
            assert_eq!(asked.get(), 2);
            runtime.sleep(NAME_IS_FRESH).await;
            assert_eq!(names.of(7).await, Some(named("user3")), "another user by now");
        };
        world.run(test).expect("it ends");
    }

    #[test]
    fn many_clients_of_one_user_ask_a_silent_name_service_once() {
        let world = Simulation::new(1);
        let runtime = world.runtime();
        let asked = Rc::new(Cell::new(0));
        let test = async move {
            let (count, slow) = (asked.clone(), runtime.clone());
            let names = Names::by(runtime.clone(), move |_| {
                count.set(count.get() + 1);
                let slow = slow.clone();
                Box::pin(async move {
                    slow.sleep(Duration::from_secs(3600)).await;
                    Ok(Some(named("alice")))
                })
            });
            for _ in 0..100 {
                let told = runtime.timeout(Duration::from_secs(5), names.of(7)).await;
                assert_eq!(told, None, "nothing was heard");
            }
            assert_eq!(asked.get(), 1);
            assert_eq!(names.of(7).await, Some(named("alice")), "it is heard in the end");
            assert_eq!(asked.get(), 1);
        };
        world.run(test).expect("it ends");
    }

    #[test]
    fn a_failure_of_the_name_service_is_not_remembered() {
        let world = Simulation::new(1);
        let runtime = world.runtime();
        let test = async move {
            let asked = Cell::new(0);
            let names = Names::by(runtime, move |_| {
                asked.set(asked.get() + 1);
                let told = match asked.get() {
                    1 => Err(io::Error::other("the directory is away")),
                    _ => Ok(Some(named("alice"))),
                };
                Box::pin(async move { told })
            });
            assert_eq!(names.of(7).await, None);
            assert_eq!(names.of(7).await, Some(named("alice")));
        };
        world.run(test).expect("it ends");
    }
}
