//! The users of this host. A name service may take arbitrarily long to answer, or never answer.
//! Callers wait no longer than the bounds here, and the manager's thread, which sends the strobes,
//! hardly at all.

use crate::config::KnownUsers;
use nix::unistd::{Uid, User};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a starting manager waits for all names of its configuration together. Jobs continue
/// meanwhile, as nodes keep them for minutes.
const START_PATIENCE: Duration = Duration::from_secs(3);
/// How long the manager's thread waits for the name of a uid that is new to it. A local database
/// answers within a millisecond.
const NAME_PATIENCE: Duration = Duration::from_millis(200);
/// An older name is requested again, in the background.
const NAME_IS_FRESH: Duration = Duration::from_secs(60);
/// Most uids whose names are remembered.
const NAMES_MAX: usize = 1 << 16;
/// Pause between the start and the next question for unknown names. Each later pause is twice as
/// long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, and thus the delay after a directory server has returned.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

fn uid_of(name: &str) -> Option<u32> {
    match User::from_name(name) {
        Ok(user) => user.map(|user| user.uid.as_raw()),
        Err(error) => {
            tracing::warn!(name, %error, "the host cannot tell who a user is");
            None
        }
    }
}

/// Requests the uids of these users. Users without an answer in time are unknown.
pub(super) fn look_up(names: Vec<String>) -> KnownUsers {
    if names.is_empty() {
        return KnownUsers::default();
    }
    let (tell, told) = mpsc::channel();
    let (count, until) = (names.len(), Instant::now() + START_PATIENCE);
    let asking = std::thread::Builder::new().name("users".to_owned()).spawn(move || {
        for name in names {
            let uid = uid_of(&name);
            // Perhaps nobody waits any more.
            let _ = tell.send((name, uid));
        }
    });
    if let Err(error) = asking {
        tracing::warn!(%error, "the host cannot be asked who its users are");
    }
    let answers = (0..count)
        .map_while(|_| told.recv_timeout(until.saturating_duration_since(Instant::now())).ok());
    answers.filter_map(|(name, uid)| Some((name, uid?))).collect()
}

/// Repeats the requests for users that were unknown to the host, until all of them are found.
pub(super) async fn ask_again(mut names: Vec<String>, known: async_channel::Sender<(String, u32)>) {
    let mut pause = FIRST_PAUSE;
    while !names.is_empty() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let asked = std::mem::take(&mut names);
        let asking = tokio::task::spawn_blocking(move || {
            asked.into_iter().map(|name| (uid_of(&name), name)).collect::<Vec<_>>()
        });
        let Ok(answers) = asking.await else { return };
        for (uid, name) in answers {
            let Some(uid) = uid else {
                names.push(name);
                continue;
            };
            if known.send((name, uid)).await.is_err() {
                return;
            }
        }
    }
}

/// The names of users by number, as far as they are known.
pub(super) struct UserNames {
    asks: mpsc::Sender<u32>,
    answers: mpsc::Receiver<(u32, Option<String>)>,
    known: RefCell<HashMap<u32, Known>>,
}

/// The answer for a uid, and the time of the last request for it.
struct Known {
    name: Option<String>,
    asked: Instant,
}

impl UserNames {
    /// Queries the host's user database, on a thread of its own.
    pub(super) fn of_host() -> UserNames {
        UserNames::by(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name))
    }

    fn by(ask: impl Fn(u32) -> Option<String> + Send + 'static) -> UserNames {
        let (asks, asked) = mpsc::channel::<u32>();
        let (answer, answers) = mpsc::channel();
        let asking = std::thread::Builder::new().name("names".to_owned()).spawn(move || {
            // The thread ends when the requesting side is dropped.
            while let Ok(uid) = asked.recv() {
                if answer.send((uid, ask(uid))).is_err() {
                    return;
                }
            }
        });
        if let Err(error) = asking {
            tracing::warn!(%error, "users are shown by their numbers");
        }
        UserNames { asks, answers, known: RefCell::default() }
    }

    /// The name of a user; `None` if there is none, or no answer arrived in time.
    pub(super) fn name(&self, uid: u32) -> Option<String> {
        let mut known = self.known.borrow_mut();
        while let Ok((uid, name)) = self.answers.try_recv() {
            note(&mut known, uid, name);
        }
        let now = Instant::now();
        if let Some(found) = known.get_mut(&uid) {
            if now.saturating_duration_since(found.asked) >= NAME_IS_FRESH {
                found.asked = now;
                // If the thread has ended, the known names remain.
                let _ = self.asks.send(uid);
            }
            return found.name.clone();
        }
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(uid, Known { name: None, asked: now });
        self.asks.send(uid).ok()?;
        let until = now + NAME_PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (heard, name) = self.answers.recv_timeout(left).ok()?;
            note(&mut known, heard, name.clone());
            if heard == uid {
                return name;
            }
        }
    }
}

fn note(known: &mut HashMap<u32, Known>, uid: u32, name: Option<String>) {
    known.entry(uid).or_insert(Known { name: None, asked: Instant::now() }).name = name;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_host_are_known_and_others_are_not() {
        let known = look_up(vec!["root".to_owned(), "no-such-user-here".to_owned()]);
        assert_eq!(known, [("root".to_owned(), 0)].into_iter().collect());
        let names = UserNames::of_host();
        assert_eq!(names.name(0).as_deref(), Some("root"));
    }

    /// Regression: a listing stopped the strobes for as long as a name service did not answer.
    #[test]
    fn a_name_service_that_does_not_answer_is_waited_for_once_and_heard_later() {
        let (open, gate) = mpsc::channel::<()>();
        let names = UserNames::by(move |uid| {
            let _ = gate.recv();
            Some(format!("user{uid}"))
        });
        assert_eq!(names.name(7), None, "nothing was heard");
        let began = Instant::now();
        assert!((0..1_000).all(|_| names.name(7).is_none()));
        assert!(began.elapsed() < NAME_PATIENCE, "nobody waits again");
        drop(open);
        // Requested after 7, so the answer for 7 precedes the answer for 8.
        assert_eq!(names.name(8).as_deref(), Some("user8"));
        assert_eq!(names.name(7).as_deref(), Some("user7"));
    }
}
