//! The places of a relay's clients. A place is taken when a client connects, and free again when
//! its [`Place`] is dropped.
//!
//! A client that has sent nothing is *silent*. It costs nothing but a descriptor, and may have to
//! give way to a later client.

use super::bounds::Bounds;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use tokio::sync::Notify;

/// All places of a relay.
#[derive(Clone, Debug)]
pub(super) struct Places(Rc<RefCell<Taken>>);

#[derive(Debug)]
struct Taken {
    bounds: Bounds,
    /// The number of the next client.
    next: u64,
    all: usize,
    users: HashMap<u32, OfUser>,
    /// By number: the first is the oldest.
    silent: BTreeMap<u64, Rc<Client>>,
}

/// The places of one user.
#[derive(Debug, Default)]
struct OfUser {
    all: usize,
    silent: usize,
}

#[derive(Debug)]
struct Client {
    uid: u32,
    number: u64,
    state: Cell<State>,
    gives_way: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Silent,
    Speaks,
    /// Its place is taken by another client.
    GivesWay,
}

/// The place of one client.
#[derive(Debug)]
pub(super) struct Place {
    taken: Rc<RefCell<Taken>>,
    client: Rc<Client>,
}

impl Places {
    /// The places that `bounds` allows.
    pub(super) fn new(bounds: Bounds) -> Places {
        let (users, silent) = (HashMap::new(), BTreeMap::new());
        Places(Rc::new(RefCell::new(Taken { bounds, next: 0, all: 0, users, silent })))
    }

    /// A place for a new client of this user, which is silent. `None` if there is none.
    pub(super) fn take(&self, uid: u32) -> Option<Place> {
        let mut taken = self.0.borrow_mut();
        if !taken.has_room(uid) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let (state, gives_way) = (Cell::new(State::Silent), Notify::new());
        let client = Rc::new(Client { uid, number, state, gives_way });
        taken.enter(client.clone());
        Some(Place { taken: self.0.clone(), client })
    }
}

impl Taken {
    /// Whether one more client of this user has a place. Where all places are taken, the oldest
    /// silent client gives way.
    fn has_room(&mut self, uid: u32) -> bool {
        let is_trusted = self.bounds.trusted.contains(&uid);
        let (all, silent) = self.users.get(&uid).map_or((0, 0), |user| (user.all, user.silent));
        if !is_trusted && all >= self.bounds.clients_per_user {
            return false;
        }
        if silent >= self.bounds.silent_per_user {
            return false;
        }
        let room = self.bounds.clients + if is_trusted { self.bounds.trusted_places } else { 0 };
        if self.silent.len() < self.bounds.silent && self.all < room {
            return true;
        }
        let Some((_, oldest)) = self.silent.pop_first() else { return false };
        self.leave(&oldest);
        oldest.state.set(State::GivesWay);
        oldest.gives_way.notify_one();
        true
    }

    fn enter(&mut self, client: Rc<Client>) {
        let user = self.users.entry(client.uid).or_default();
        user.all += 1;
        user.silent += 1;
        self.all += 1;
        self.silent.insert(client.number, client);
    }

    fn speaks(&mut self, client: &Client) {
        if client.state.get() != State::Silent {
            return;
        }
        client.state.set(State::Speaks);
        self.silent.remove(&client.number);
        if let Some(user) = self.users.get_mut(&client.uid) {
            user.silent -= 1;
        }
    }

    fn leave(&mut self, client: &Client) {
        let was_silent = match client.state.get() {
            State::GivesWay => return,
            State::Silent => true,
            State::Speaks => false,
        };
        self.silent.remove(&client.number);
        self.all -= 1;
        let Some(user) = self.users.get_mut(&client.uid) else { return };
        user.all -= 1;
        user.silent -= usize::from(was_silent);
        if user.all == 0 {
            self.users.remove(&client.uid);
        }
    }
}

impl Place {
    /// The client has sent something. Returns whether it still has its place.
    pub(super) fn speaks(&self) -> bool {
        self.taken.borrow_mut().speaks(&self.client);
        self.client.state.get() == State::Speaks
    }

    /// Waits until the client must give way.
    pub(super) async fn gives_way(&self) {
        self.client.gives_way.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.borrow_mut().leave(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    const ROOT: u32 = 0;

    fn places(descriptors: u64) -> Places {
        Places::new(Bounds::with_descriptors(descriptors, vec![ROOT]))
    }

    fn taken(places: &Places, uid: u32, count: usize) -> Vec<Place> {
        (0..count).map_while(|_| places.take(uid)).collect()
    }

    #[test]
    fn one_user_can_keep_out_nobody_else() {
        let places = places(1 << 20);
        let silent = taken(&places, 7, 1000);
        assert_eq!(silent.len(), 16, "silent ones");
        assert!(places.take(8).is_some());
        assert!(silent.iter().all(Place::speaks));
        let mut talking = silent;
        while let Some(place) = places.take(7) {
            assert!(place.speaks());
            talking.push(place);
        }
        assert_eq!(talking.len(), 1024);
        assert!(places.take(8).is_some());
        talking.pop();
        assert!(places.take(7).is_some(), "a place that is left is free");
    }

    #[test]
    fn silent_clients_of_many_users_give_way_to_later_ones() {
        let places = places(1 << 20);
        let silent: Vec<Place> =
            (100_000..100_256).map(|uid| places.take(uid).expect("room")).collect();
        let spoke = places.take(8).expect("the oldest gives way");
        assert!(silent[0].gives_way().now_or_never().is_some());
        assert!(!silent[0].speaks(), "its place is lost");
        assert!(silent[1..].iter().all(|place| place.gives_way().now_or_never().is_none()));
        assert!(spoke.speaks());
        drop(silent);
        let _more: Vec<Place> = (0..256).map(|uid| places.take(200 + uid).expect("room")).collect();
        assert!(spoke.gives_way().now_or_never().is_none(), "a client that spoke stays");
    }

    #[test]
    fn root_gets_in_where_all_places_are_taken() {
        let places = places(1024);
        let mut talking: Vec<Place> = Vec::new();
        for uid in 1..=4 {
            talking.extend(taken(&places, uid, 16));
            assert!(talking.iter().all(Place::speaks));
        }
        assert_eq!(talking.len(), 64);
        assert!(places.take(5).is_none());
        let mut of_root = Vec::new();
        while let Some(place) = places.take(ROOT) {
            assert!(place.speaks());
            of_root.push(place);
        }
        assert_eq!(of_root.len(), 8);
    }

    proptest! {
        #[test]
        fn counts_stay_within_bounds_and_return_to_zero(
            steps in prop::collection::vec((0u8..4, 0u32..6, any::<prop::sample::Index>()), 0..400),
        ) {
            let places = places(1024);
            let mut held: Vec<Place> = Vec::new();
            for (step, uid, index) in steps {
                match step {
                    0 | 1 => held.extend(places.take(uid)),
                    2 if !held.is_empty() => drop(held.swap_remove(index.index(held.len()))),
                    _ if !held.is_empty() => { held[index.index(held.len())].speaks(); }
                    _ => {}
                }
                let taken = places.0.borrow();
                let counted = held.iter().filter(|place| {
                    place.client.state.get() != State::GivesWay
                }).count();
                prop_assert_eq!(taken.all, counted);
                prop_assert!(taken.all <= 64 + 8 && taken.silent.len() <= 16);
                prop_assert_eq!(taken.users.values().map(|user| user.all).sum::<usize>(), counted);
                let silent: usize = taken.users.values().map(|user| user.silent).sum();
                prop_assert_eq!(silent, taken.silent.len());
            }
            held.clear();
            let taken = places.0.borrow();
            prop_assert!(taken.all == 0 && taken.users.is_empty() && taken.silent.is_empty());
        }
    }
}
