//! Reductions.

use super::tables::collectives;
use crate::abi::{Array, Buffer, BufferMut, Out, counted};
use crate::call::call;
use crate::fault::{Class, Fault, Outcome};
use crate::intercomm;
use crate::members::{Members, started, waiting};
use crate::memory::{Elements, Landing};
use crate::reducer::Reducer;
use crate::session::Session;
use crate::table::Handle;
use std::borrow::Cow;
use std::ffi::c_int;
use std::ops::Range;
use storm_mpi::collective::{Between, Combine, Root, Span};

/// The arguments that all reductions have.
pub(super) struct Reduction {
    pub(super) send: Buffer,
    pub(super) recv: BufferMut,
    pub(super) count: c_int,
    pub(super) datatype: Handle,
    pub(super) op: Handle,
}

impl Reduction {
    /// Checks the arguments, and returns the operation and this member's elements.
    fn begin(&self, session: &'static Session) -> Outcome<(Reducer, Elements)> {
        let reducer = Reducer::new(session, self.op, self.datatype, self.count)?;
        let from = if self.send.is_in_place() { self.recv.read() } else { self.send };
        let mine = Elements::read(from, self.count, reducer.datatype())?;
        Ok((reducer, mine))
    }

    /// Like [`Reduction::begin`], with the elements in the place of the result.
    fn begin_in_result(&self, session: &'static Session) -> Outcome<(Reducer, Elements, Landing)> {
        let (reducer, mine) = self.begin(session)?;
        let into = Elements::written(self.recv, self.count, reducer.datatype())?;
        let mut landing = into.landing();
        landing.fill(&mine);
        Ok((reducer, into, landing))
    }

    /// Like [`Reduction::begin`], with a copy of the elements.
    fn begin_with_copy(&self, session: &'static Session) -> Outcome<(Reducer, Span)> {
        let (reducer, mine) = self.begin(session)?;
        Ok((reducer, Span::of(&mine.packed())))
    }

    /// Like [`Reduction::begin_with_copy`], between groups, each of which has a result of its own.
    fn begin_between_groups(&self, session: &'static Session) -> Outcome<(Reducer, Span)> {
        match self.send.is_in_place() {
            true => Err(Fault::new(Class::Buffer, "MPI_IN_PLACE on an inter-communicator")),
            false => self.begin_with_copy(session),
        }
    }

    /// Puts the result in its place.
    fn deliver(&self, reducer: &Reducer, result: &Span) -> Outcome {
        let into = Elements::written(self.recv, self.count, reducer.datatype())?;
        into.unpack(result.as_ref());
        Ok(())
    }
}

pub(super) async fn to_root(all: Members, reduction: Reduction, root: c_int) -> Outcome {
    if let Some(groups) = all.between() {
        return intercomm_to_root(&all, groups, &reduction, intercomm::root(&all.comm, root)?)
            .await;
    }
    let root = all.comm.root(root)?;
    if reduction.send.is_in_place() && all.comm.me != root {
        return Err(Fault::new(Class::Buffer, "MPI_IN_PLACE is for the root"));
    }
    let (mut reducer, mine) = reduction.begin(all.session)?;
    let into = match all.comm.me == root {
        true => Some(Elements::written(reduction.recv, reduction.count, reducer.datatype())?),
        false => None,
    };
    let mut landing = into.as_ref().map(Elements::landing);
    let in_place = into.as_ref().is_some_and(|into| into.start == mine.start);
    if let Some(landing) = landing.as_mut().filter(|_| in_place) {
        landing.fill(&mine);
    }
    let place = landing.as_mut().map(Landing::bytes_mut);
    let packed = (!in_place).then(|| mine.packed());
    all.party().reduce_into(packed.as_deref(), place, &mut reducer, root).await?;
    if let (Some(into), Some(landing)) = (into, landing) {
        landing.finish(into.bytes);
    }
    Ok(())
}

/// The root ignores its own elements; other members ignore the buffer for received elements.
async fn intercomm_to_root(
    all: &Members,
    groups: Between<'_>,
    reduction: &Reduction,
    root: Root,
) -> Outcome {
    match root {
        Root::LocalPeer => return Ok(()),
        Root::Remote(_) => {
            let (mut reducer, mine) = reduction.begin_between_groups(all.session)?;
            groups.reduce(mine, &mut reducer, root).await?;
        }
        Root::Here => {
            let &Reduction { op, datatype, count, .. } = reduction;
            let mut reducer = Reducer::new(all.session, op, datatype, count)?;
            let into = Elements::written(reduction.recv, count, reducer.datatype())?;
            let result = groups.reduce(Span::zeroed(into.bytes), &mut reducer, root).await?;
            result.iter().for_each(|result| into.unpack(result.as_ref()));
        }
    }
    Ok(())
}

pub(super) async fn to_all(all: Members, reduction: Reduction) -> Outcome {
    if let Some(groups) = all.between() {
        let (mut reducer, mine) = reduction.begin_between_groups(all.session)?;
        let result = groups.allreduce(mine, &mut reducer).await?;
        return reduction.deliver(&reducer, &result);
    }
    let (mut reducer, into, mut landing) = reduction.begin_in_result(all.session)?;
    all.party().allreduce_into(landing.bytes_mut(), &mut reducer).await?;
    landing.finish(into.bytes);
    Ok(())
}

pub(super) async fn scan(all: Members, reduction: Reduction) -> Outcome {
    all.comm.must_be_intra()?;
    let (mut reducer, into, mut landing) = reduction.begin_in_result(all.session)?;
    all.party().scan(landing.bytes_mut(), &mut reducer).await?;
    landing.finish(into.bytes);
    Ok(())
}

/// The first member's result is not changed, as the standard allows.
pub(super) async fn exscan(all: Members, reduction: Reduction) -> Outcome {
    all.comm.must_be_intra()?;
    let (mut reducer, mine) = reduction.begin(all.session)?;
    let into = Elements::written(reduction.recv, reduction.count, reducer.datatype())?;
    let mut landing = into.landing();
    let in_place = into.start == mine.start;
    if in_place {
        landing.fill(&mine);
    }
    let packed = (!in_place).then(|| mine.packed());
    all.party().exscan(packed.as_deref(), landing.bytes_mut(), &mut reducer).await?;
    if all.comm.me > 0 {
        landing.finish(into.bytes);
    }
    Ok(())
}

/// `reduction` has a count of 0; its elements are counted here.
pub(super) async fn scattered(
    all: Members,
    reduction: Reduction,
    counts: impl FnOnce(&Members) -> Outcome<Vec<c_int>>,
) -> Outcome {
    let counts = counts(&all)?;
    let size = all.session.datatype(reduction.datatype)?.layout.size();
    let (mut parts, mut end): (Vec<Range<usize>>, usize) = (Vec::with_capacity(counts.len()), 0);
    let mut count: c_int = 0;
    for &own in &counts {
        let part = counted(own)?;
        let too_many = || Fault::new(Class::Count, "counts whose sum is no count");
        count = count.checked_add(own).ok_or_else(too_many)?;
        let next = end + part * size;
        parts.push(end..next);
        end = next;
    }
    let whole = Reduction { count, ..reduction };
    let own = counts[all.comm.me];
    if let Some(groups) = all.between() {
        let (mut reducer, mine) = whole.begin_between_groups(all.session)?;
        let into = Elements::written(whole.recv, own, reducer.datatype())?;
        let mut landing = into.landing();
        groups.reduce_scatter(mine, &mut reducer, &parts, landing.bytes_mut()).await?;
        landing.finish(into.bytes);
        return Ok(());
    }
    let (mut reducer, mine) = whole.begin(all.session)?;
    let into = Elements::written(whole.recv, own, reducer.datatype())?;
    // An in-place result is written while there are elements to send.
    let packed = match into.start == mine.start {
        true => Cow::Owned(mine.copied()),
        false => mine.packed(),
    };
    let mut landing = into.landing();
    let part = landing.bytes_mut();
    all.party().reduce_scatter_into(&packed, &mut reducer, &parts, part).await?;
    landing.finish(into.bytes);
    Ok(())
}

collectives! {
    fn MPI_Reduce, MPI_Ireduce(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
        root: c_int,
    ) {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |all| to_root(all, reduction, root)
    }

    fn MPI_Allreduce, MPI_Iallreduce(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |all| to_all(all, reduction)
    }

    fn MPI_Scan, MPI_Iscan(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |all| scan(all, reduction)
    }

    fn MPI_Exscan, MPI_Iexscan(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |all| exscan(all, reduction)
    }

    fn MPI_Reduce_scatter, MPI_Ireduce_scatter(
        sendbuf: Buffer, recvbuf: BufferMut, recvcounts: Array<c_int>, datatype: Handle, op: Handle,
    ) {
        let none = Reduction { send: sendbuf, recv: recvbuf, count: 0, datatype, op };
        move |all| {
            let counts = move |all: &Members| Ok(recvcounts.get(all.comm.size())?.to_vec());
            scattered(all, none, counts)
        }
    }

    fn MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block(
        sendbuf: Buffer, recvbuf: BufferMut, recvcount: c_int, datatype: Handle, op: Handle,
    ) {
        let none = Reduction { send: sendbuf, recv: recvbuf, count: 0, datatype, op };
        move |all| {
            scattered(all, none, move |all| Ok(vec![recvcount; all.comm.size()]))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Reduce_local(
    inbuf: Buffer,
    inoutbuf: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
) -> c_int {
    call("MPI_Reduce_local", |session| {
        if inbuf.is_in_place() {
            return Err(Fault::new(Class::Buffer, "MPI_IN_PLACE where it means nothing"));
        }
        let reduction = Reduction { send: inbuf, recv: inoutbuf, count, datatype, op };
        let (mut reducer, mut left) = reduction.begin_with_copy(session)?;
        let right = Elements::written(inoutbuf, count, reducer.datatype())?;
        let mut right = Span::of(&right.packed());
        reducer.combine(left.as_mut(), right.as_mut())?;
        reduction.deliver(&reducer, &right)
    })
}
