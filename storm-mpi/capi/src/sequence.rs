//! A table with numbered handles. A freed handle names nothing, and no other object, until very
//! many others have been made. The table is for requests and messages, because programs keep copies
//! of their handles.
//!
//! An object's place is its number modulo the number of places, of which at least half are empty.

use crate::fault::{Class, Fault, Outcome};
use crate::table::{Handle, Kind};
use std::ops::Range;

/// Initial number of places, which doubles.
const FIRST_PLACES: usize = 8;
/// Limit of places, for half as many objects.
const PLACES_MAX: usize = 1 << 25;

/// The objects of one kind.
pub(crate) struct Sequence<T> {
    kind: Kind,
    /// Numbers are given one after the other, then from the start again. Number 0 has the handle
    /// after the null handle.
    numbers: Range<u32>,
    places: Vec<Option<(u32, T)>>,
    next: u32,
    count: usize,
}

impl<T> Sequence<T> {
    /// An empty table. No other kind has handles of these numbers, and there are many more numbers
    /// than objects.
    pub(crate) fn new(kind: Kind, numbers: Range<u32>) -> Self {
        let places = (0..FIRST_PLACES).map(|_| None).collect();
        Sequence { kind, places, next: numbers.start, numbers, count: 0 }
    }

    pub(crate) fn add(&mut self, object: T) -> Outcome<Handle> {
        if 2 * (self.count + 1) > self.places.len() {
            self.grow()?;
        }
        // The loop ends: half of the places are empty, and consecutive numbers have different
        // places.
        while self.places[self.place(self.next)].is_some() {
            self.next = self.after(self.next);
        }
        let (number, place) = (self.next, self.place(self.next));
        self.places[place] = Some((number, object));
        self.next = self.after(number);
        self.count += 1;
        Ok(self.kind.null() + 1 + number as Handle)
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Outcome<&T> {
        let number = self.number(handle);
        match &self.places[self.place(number)] {
            Some((own, object)) if *own == number => Ok(object),
            Some(_) | None => Err(self.kind.unknown(handle)),
        }
    }

    /// The object of a handle, to change.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Outcome<&mut T> {
        let number = self.number(handle);
        let place = self.place(number);
        match &mut self.places[place] {
            Some((own, object)) if *own == number => Ok(object),
            Some(_) | None => Err(self.kind.unknown(handle)),
        }
    }

    /// Takes an object out of the table.
    pub(crate) fn free(&mut self, handle: Handle) -> Outcome<T> {
        let number = self.number(handle);
        let place = self.place(number);
        let freed = self.places[place].take_if(|(own, _)| *own == number);
        let (_, object) = freed.ok_or_else(|| self.kind.unknown(handle))?;
        self.count -= 1;
        Ok(object)
    }

    fn after(&self, number: u32) -> u32 {
        if number + 1 < self.numbers.end { number + 1 } else { self.numbers.start }
    }

    /// The number of a handle. For a handle of another kind it is a number that no object has.
    fn number(&self, handle: Handle) -> u32 {
        handle.wrapping_sub(self.kind.null() + 1) as u32
    }

    fn place(&self, number: u32) -> usize {
        // The number of places is a power of two.
        number as usize & (self.places.len() - 1)
    }

    /// Doubles the places. Numbers with different places get different ones again.
    fn grow(&mut self) -> Outcome {
        let places = 2 * self.places.len();
        if places > PLACES_MAX {
            let text = format!("too many of one kind: {}", self.kind.name());
            return Err(Fault::new(Class::Other, text));
        }
        let before = std::mem::replace(&mut self.places, (0..places).map(|_| None).collect());
        for (number, object) in before.into_iter().flatten() {
            let place = self.place(number);
            self.places[place] = Some((number, object));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{COMM, REQUEST};

    const NUMBERS: u32 = 1 << 30;

    #[test]
    fn a_handle_that_was_freed_is_nobodys() {
        let mut table = Sequence::new(REQUEST, 0..NUMBERS);
        let kept: Vec<_> = (0..100).map(|i| (table.add(i).ok().unwrap(), i)).collect();
        let mut freed = Vec::new();
        for i in 0..10_000 {
            let handle = table.add(1000 + i).ok().unwrap();
            assert_eq!(table.get_mut(handle).ok(), Some(&mut (1000 + i)));
            assert_eq!(table.free(handle).ok(), Some(1000 + i));
            freed.push(handle);
        }
        for handle in freed {
            assert!(table.get(handle).is_err() && table.get_mut(handle).is_err());
            assert!(table.free(handle).is_err());
        }
        assert!(kept.iter().all(|(handle, i)| table.get(*handle).ok() == Some(i)));
    }

    #[test]
    fn no_other_handle_names_anything() {
        let mut table = Sequence::new(REQUEST, 0..NUMBERS);
        (0..8).for_each(|i| drop(table.add(i)));
        for handle in [REQUEST.null(), REQUEST.null() + 9, COMM.handle(1), 0, -1, Handle::MIN] {
            assert!(table.get(handle).is_err() && table.free(handle).is_err(), "{handle:#x}");
        }
    }

    #[test]
    fn numbers_begin_again_and_pass_over_those_in_use() {
        let mut table = Sequence::new(REQUEST, 0..NUMBERS);
        let first = table.add('a').ok().unwrap();
        table.next = NUMBERS - 1;
        let last = table.add('b').ok().unwrap();
        assert!(last > first);
        let next = table.add('c').ok().unwrap();
        assert_eq!(next, first + 1);
        let all = [first, last, next].map(|handle| *table.get(handle).ok().unwrap());
        assert_eq!(all, ['a', 'b', 'c']);
    }

    #[test]
    fn numbers_that_are_not_given_stay_free() {
        let mut table = Sequence::new(REQUEST, 3..NUMBERS);
        let first = table.add('a').ok().unwrap();
        assert_eq!(first, REQUEST.handle(4));
        table.next = NUMBERS - 1;
        table.add('b').ok().unwrap();
        assert_eq!(table.free(first).ok(), Some('a'));
        assert_eq!(table.add('c').ok(), Some(first));
        assert!(table.get(REQUEST.handle(1)).is_err());
    }
}
