//! A process's view of a file (MPI-4.1, section 14.3): from a displacement on, the data of elements
//! of a type, one after the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use storm_mpi::layout::Layout;

/// A view. Positions are counted in bytes of the visible data.
pub(super) struct View {
    displacement: u64,
    /// The stretches of an element's data in order, each with the number of bytes before it.
    stretches: Vec<Stretch>,
    /// Bytes of an element's data.
    size: u64,
    /// Distance from an element's beginning to the next element's.
    extent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// Offset from the element's beginning.
    at: u64,
    bytes: u64,
    /// Bytes of the element's data before this stretch.
    before: u64,
}

impl View {
    /// A view of the data of elements of this layout. `None` if the data of an element is not in
    /// file order, or if the next element does not begin further on. Data of an element may overlap
    /// only if the file is only `read`. Without data, nothing is visible.
    pub(super) fn new(displacement: u64, layout: &Layout, read: bool) -> Option<View> {
        let (mut stretches, mut size, mut ordered): (Vec<Stretch>, _, _) = (Vec::new(), 0, true);
        let (mut from, mut end) = (0, 0);
        layout.for_each_run(1, &mut |at, bytes| {
            ordered &= at >= 0 && at as u64 >= if read { from } else { end };
            let (at, bytes) = (at as u64, bytes as u64);
            (from, end) = (at, at.saturating_add(bytes));
            match stretches.last_mut() {
                Some(last) if last.at + last.bytes == at => last.bytes += bytes,
                Some(_) | None => stretches.push(Stretch { at, bytes, before: size }),
            }
            size += bytes;
        });
        let extent = u64::try_from(layout.extent()).ok()?;
        // The next element's data may lie between this element's. Programs make such types of
        // subarrays with the bounds of an enclosing structure, and never reach the next element.
        let further = extent > 0 || size == 0;
        (ordered && further).then_some(View { displacement, stretches, size, extent })
    }

    /// The place in the file of the byte at a position. `None` if it is beyond the limit of files.
    pub(super) fn place(&self, position: u64) -> Option<u64> {
        self.stretch(position).map(|(place, _)| place)
    }

    /// Number of visible bytes of a file of `file_bytes` bytes, up to the first byte that the file
    /// lacks. If data overlaps, the number may be too large to count; the result is then the
    /// largest number.
    pub(super) fn seen_of(&self, file_bytes: u64) -> u64 {
        let Some(room) = file_bytes.checked_sub(self.displacement) else { return 0 };
        let reach = self.stretches.iter().map(|stretch| stretch.at + stretch.bytes).max();
        let Some(reach) = reach else { return 0 };
        // The first element that is not complete. A type with data has an extent.
        let whole = room.checked_sub(reach).map_or(0, |more| more / self.extent.max(1) + 1);
        let base = whole * self.extent;
        let short = self.stretches.iter().find(|stretch| base + stretch.at + stretch.bytes > room);
        let part =
            short.map_or(0, |stretch| stretch.before + room.saturating_sub(base + stretch.at));
        whole.saturating_mul(self.size).saturating_add(part)
    }

    /// Reads visible data from a position on, and returns the number of bytes that there were.
    pub(super) fn read(&self, file: &File, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        if self.size == 0 {
            return Ok(0);
        }
        while done < into.len() {
            let Some((place, bytes)) = self.stretch(position + done as u64) else {
                return Err(io::ErrorKind::FileTooLarge.into());
            };
            let end = into.len().min(done.saturating_add(bytes));
            // A short read is continued. At the end of the file, the next read returns nothing.
            match file.read_at(&mut into[done..end], place) {
                Ok(0) => return Ok(done),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes visible data from a position on, and returns the number of bytes that there was room
    /// for: all, or none.
    pub(super) fn write(&self, file: &File, position: u64, data: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        if self.size == 0 {
            return Ok(0);
        }
        while done < data.len() {
            let Some((place, bytes)) = self.stretch(position + done as u64) else {
                return Err(io::ErrorKind::FileTooLarge.into());
            };
            let end = data.len().min(done.saturating_add(bytes));
            file.write_all_at(&data[done..end], place)?;
            done = end;
        }
        Ok(done)
    }

    /// The place of the byte at a position, and the number of bytes in a row from there on.
    fn stretch(&self, position: u64) -> Option<(u64, usize)> {
        let element = position.checked_div(self.size)?;
        let within = position % self.size;
        let at = self.stretches.partition_point(|stretch| stretch.before <= within) - 1;
        let Stretch { at, bytes, before } = self.stretches[at];
        let place = element.checked_mul(self.extent)?.checked_add(at + (within - before))?;
        let place = place.checked_add(self.displacement)?;
        i64::try_from(place).ok()?;
        let is_dense = self.stretches.len() == 1 && self.size == self.extent;
        let bytes = if is_dense { usize::MAX } else { (bytes - (within - before)) as usize };
        Some((place, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each position by itself, according to the definition.
    fn places(view: &View, count: u64) -> Vec<u64> {
        (0..count).map(|position| view.place(position).expect("small")).collect()
    }

    #[test]
    fn a_view_shows_the_data_of_one_element_after_the_other() {
        let int = Layout::number(4, 4);
        let dense = View::new(10, &int, false).expect("a view");
        assert_eq!(places(&dense, 6), [10, 11, 12, 13, 14, 15]);
        assert_eq!((dense.seen_of(9), dense.seen_of(10), dense.seen_of(13)), (0, 0, 3));
        // Two bytes of each six, from the second on.
        let byte = Layout::number(1, 1);
        let part = byte.hindexed([(2, 1)]).and_then(|pair| pair.resized(0, 6)).expect("small");
        let sparse = View::new(100, &part, false).expect("a view");
        assert_eq!(places(&sparse, 5), [101, 102, 107, 108, 113]);
        for (file, seen) in [(101, 0), (102, 1), (106, 2), (108, 3), (109, 4), (113, 4)] {
            assert_eq!(sparse.seen_of(file), seen, "{file}");
        }
    }

    #[test]
    fn data_written_through_a_view_is_read_through_it() {
        let file = tempfile::tempfile().expect("a file");
        let byte = Layout::number(1, 1);
        let odd = byte.hindexed([(1, 1), (2, 3)]).and_then(|odd| odd.resized(0, 8)).expect("small");
        let view = View::new(2, &odd, false).expect("a view");
        let data: Vec<u8> = (1..=20).collect();
        assert_eq!(view.write(&file, 4, &data).expect("written"), 20);
        let mut back = [0; 24];
        // The first four lie in a hole of the file, which ends with the last.
        assert_eq!(view.read(&file, 0, &mut back).expect("read"), 24);
        assert_eq!((&back[..4], &back[4..]), (&[0; 4][..], &data[..]));
        assert_eq!(view.read(&file, 20, &mut back).expect("read"), 4);
        assert_eq!(view.seen_of(file.metadata().expect("a length").len()), 24);
    }

    #[test]
    fn an_unordered_datatype_is_not_a_view() {
        let byte = Layout::number(1, 1);
        let back = byte.hindexed([(1, 4), (1, 0)]).expect("small");
        let over = byte.hindexed([(3, 0), (1, 1)]).expect("small");
        let again = byte.contiguous(4).and_then(|four| four.resized(0, 0)).expect("small");
        assert!([&back, &over, &again].iter().all(|view| View::new(0, view, false).is_none()));
        assert!([&back, &again].iter().all(|view| View::new(0, view, true).is_none()));
    }

    #[test]
    fn the_first_of_elements_that_overlap_was_refused_where_it_is_written() {
        let byte = Layout::number(1, 1);
        let over = byte.contiguous(4).and_then(|four| four.resized(0, 2)).expect("small");
        let view = View::new(3, &over, false).expect("a view");
        assert_eq!(places(&view, 6), [3, 4, 5, 6, 5, 6]);
    }

    #[test]
    fn overlapping_elements_were_refused_for_reading() {
        let byte = Layout::number(1, 1);
        let over = byte.hindexed([(3, 0), (1, 1)]).expect("small");
        let view = View::new(5, &over, true).expect("a view");
        assert_eq!(places(&view, 8), [5, 6, 7, 6, 8, 9, 10, 9]);
        // The last visible byte lies before the first missing one.
        let seen = [(5, 0), (7, 2), (8, 4), (9, 5), (10, 6), (11, 8)];
        for (file, seen) in seen {
            assert_eq!(view.seen_of(file), seen, "{file}");
        }
    }

    #[test]
    fn a_view_without_data_was_refused_and_shows_nothing() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(b"data", 0).expect("written");
        let empty = Layout::number(1, 1).contiguous(0).expect("small");
        let view = View::new(1, &empty, false).expect("a view");
        assert_eq!(view.read(&file, 0, &mut [0; 4]).expect("read"), 0);
        assert_eq!(view.write(&file, 0, b"more").expect("written"), 0);
        assert_eq!((view.place(0), view.seen_of(4)), (None, 0));
    }
}
