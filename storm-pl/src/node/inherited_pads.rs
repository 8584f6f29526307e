//! Pads in which jobs of a former daemon continue. These pads become pads of this daemon.

use std::io;
use std::sync::Arc;

use crate::cgroup::PadCgroup;
use crate::node::former::{Former, FormerPad, FormerPl, OwnKeeper};
use crate::node::pads::{Pad, Pads, Pl};
use crate::node::source::Source;
use crate::switch::{CgroupFreezer, Freezer, SignalFreezer};

impl Pads {
    /// Takes over the pads in which jobs of a former daemon continue.
    pub(super) fn take_over(&mut self, former: Former) -> io::Result<()> {
        let Former { process, next_pad, pads } = former;
        (self.former, self.made) = (Some(process), next_pad.0.into());
        pads.into_iter().try_for_each(|pad| self.take_over_pad(pad))
    }

    fn take_over_pad(&mut self, former: FormerPad) -> io::Result<()> {
        let FormerPad { pad, own, is_vacant, pls } = former;
        let size = u16::try_from(pls.len()).unwrap_or(u16::MAX);
        let last = pls.iter().map(|(pl, _)| pl.0.saturating_add(1)).max().unwrap_or(0);
        let mut state = Pad::new(self.capacity.max(last), size);
        state.filling = false;
        (state.vacant, state.draining) = (is_vacant, is_vacant);
        // A former limit is unknown. Removing a limit that does not exist does nothing.
        state.limited = true;
        let freezer = match (own, &self.cgroup) {
            (Some(OwnKeeper { control, pid, jobs }), _) => {
                self.watch(&control, Source::PadKeeper(pad))?;
                self.kept.extend(jobs.into_iter().map(|job| (job, pad)));
                state.control = Some(control);
                Some(Freezer::Signal(SignalFreezer::new(pid)))
            }
            // Its keeper removes the pad as soon as the last rank is reaped.
            (None, Some(_)) if is_vacant => None,
            (None, Some(node)) => {
                let path = PadCgroup::path_in(node, pad);
                Some(Freezer::Cgroup(CgroupFreezer::open(&path)?))
            }
            (None, None) => None,
        };
        state.freezer = freezer.map(Arc::new);
        for (pl, former) in pls {
            let known = match former {
                FormerPl::Launching(command) => Pl::Launching { command },
                FormerPl::Running => Pl::Running,
                FormerPl::Failed => Pl::Failed,
                FormerPl::Ended => Pl::Ended,
            };
            if let Some(place) = state.pl_mut(pl) {
                *place = known;
            }
        }
        self.pads.insert(pad, state);
        self.watch_last(pad);
        Ok(())
    }
}
