//! The connections to the keepers of the pads.

use std::collections::VecDeque;

use crate::ids::PadId;
use crate::node::Event;
use crate::node::outbox::Line;
use crate::node::pads::{Pad, Pads};
use crate::node::source::Source;

impl Pads {
    /// The way to the keeper of `pad`.
    pub(super) fn line(&mut self, pad: PadId) -> Line<'_> {
        let Self { control, outbox, epoll, limit, pads, .. } = self;
        let line = Line::to_node((control, outbox), epoll, *limit);
        match pads.get_mut(&pad) {
            Some(Pad { control, outbox, .. }) => line.or_to(pad, (control, outbox)),
            None => line,
        }
    }

    /// The way to the node's keeper.
    pub(super) fn line_to_node(&mut self) -> Line<'_> {
        Line::to_node((&self.control, &mut self.outbox), &self.epoll, self.limit)
    }

    /// Sends waiting commands after a report from a keeper, which may have room now.
    pub(super) fn send_waiting(&mut self, heard: Source, events: &mut VecDeque<Event>) {
        match heard {
            Source::Keeper | Source::Room => self.line_to_node().send_waiting(events),
            Source::PadKeeper(pad) | Source::PadRoom(pad) | Source::Pl(pad, _) => {
                self.line(pad).send_waiting(events);
            }
        }
    }
}
