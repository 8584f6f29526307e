//! The tables behind handles. Requests and messages are in a `sequence`.

use crate::fault::{Class, Fault, Outcome};
use crate::handle::PLACE_BITS;
pub(crate) use crate::handle::{
    COMM, ERRHANDLER, FILE, GROUP, Handle, INFO, KEYVAL, Kind, MESSAGE, OP, REQUEST, TYPE, WINDOW,
};

impl Kind {
    fn place(self, handle: Handle) -> Outcome<usize> {
        let place = handle & ((1 << PLACE_BITS) - 1);
        if self.names(handle) && place != 0 {
            return Ok(place as usize);
        }
        Err(self.unknown(handle))
    }

    pub(crate) fn unknown(self, handle: Handle) -> Fault {
        let what = if handle == self.null() { "null" } else { "unknown" };
        Fault::new(self.class, format!("{what} {} (handle {handle:#010x})", self.name()))
    }
}

/// The objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    /// Objects by place; place 0 stays empty.
    places: Vec<Option<T>>,
    /// Places that were used before.
    free: Vec<usize>,
    /// Number of the first places that belong to the library and are never freed.
    predefined: usize,
}

impl<T> Table<T> {
    /// A table that begins with these objects, which are never freed.
    pub(crate) fn new(kind: Kind, predefined: impl IntoIterator<Item = T>) -> Self {
        let mut places = vec![None];
        places.extend(predefined.into_iter().map(Some));
        Table { kind, predefined: places.len(), places, free: Vec::new() }
    }

    pub(crate) fn add(&mut self, object: T) -> Outcome<Handle> {
        let place = self.free.pop().unwrap_or(self.places.len());
        if place >> PLACE_BITS != 0 {
            return Err(Fault::new(
                Class::Other,
                format!("too many of one kind: {}", self.kind.name()),
            ));
        }
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(object);
        Ok(self.kind.handle(place))
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Outcome<&T> {
        // For a handle of this kind, the place is the difference from the null handle. For another
        // kind, the difference is not a place.
        let place = (handle ^ self.kind.null()) as usize;
        let object = self.places.get(place).and_then(Option::as_ref);
        object.ok_or_else(|| self.kind.unknown(handle))
    }

    /// The object of a handle, to change.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Outcome<&mut T> {
        let place = self.kind.place(handle)?;
        let object = self.places.get_mut(place).and_then(Option::as_mut);
        object.ok_or_else(|| self.kind.unknown(handle))
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Takes an object out of the table. An object of the library is refused and stays.
    pub(crate) fn free(&mut self, handle: Handle) -> Outcome<T> {
        let place = self.kind.place(handle)?;
        if place < self.predefined {
            return Err(Fault::new(self.kind.class, format!("predefined {}", self.kind.name())));
        }
        let object = self.places.get_mut(place).and_then(Option::take);
        let object = object.ok_or_else(|| self.kind.unknown(handle))?;
        self.free.push(place);
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_another_kind_and_freed_ones_are_refused() {
        let mut table = Table::new(GROUP, ["empty"]);
        assert_eq!(table.get(GROUP.handle(1)).ok(), Some(&"empty"));
        let handle = table.add("mine").ok().unwrap();
        assert_eq!(table.get(handle).ok(), Some(&"mine"));
        assert!(table.get(COMM.handle(2)).is_err());
        assert!(table.get(GROUP.null()).is_err());
        assert!(table.free(GROUP.handle(1)).is_err(), "predefined");
        assert_eq!(table.free(handle).ok(), Some("mine"));
        assert!(table.get(handle).is_err() && table.free(handle).is_err());
        assert_eq!(table.add("next").ok(), Some(handle), "places are used again");
    }
}
