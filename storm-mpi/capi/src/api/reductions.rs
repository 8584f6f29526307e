//! Reductions and operations.

use crate::abi::{Array, Buffer, BufferMut, Out, counted};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::operation::{Operation, Reducer, UserFunction};
use crate::session::{Session, call, on};
use crate::table::{Handle, OP};
use std::ffi::c_int;
use std::ops::Range;
use std::rc::Rc;
use storm_mpi::collective::{Combine, Party, Span};

/// The arguments that all reductions have.
struct Reduction {
    send: Buffer,
    recv: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
}

impl Reduction {
    /// Checks them; gives the operation, and this member's elements.
    fn begin(&self, session: &Session) -> Outcome<(Reducer, Span)> {
        let reducer = Reducer::new(session, self.op, self.datatype, self.count)?;
        let from = if self.send.is_in_place() { self.recv.read() } else { self.send };
        let mine = Elements::read(from, self.count, reducer.datatype())?;
        let mine = Span::of(&mine.packed());
        Ok((reducer, mine))
    }

    /// Puts the result to its place.
    fn deliver(&self, reducer: &Reducer, result: &Span) -> Outcome {
        let into = Elements::written(self.recv, self.count, reducer.datatype())?;
        into.unpack(result.as_ref());
        Ok(())
    }

    /// A reduction whose result all members get.
    fn everywhere(
        &self,
        session: &Session,
        comm: &Comm,
        combine: impl FnOnce(Party<'_>, Span, &mut Reducer) -> Outcome<Option<Span>>,
    ) -> Outcome {
        let (mut reducer, mine) = self.begin(session)?;
        match combine(comm.party(&session.process), mine, &mut reducer)? {
            Some(result) => self.deliver(&reducer, &result),
            None => Ok(()),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Reduce(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Reduce", |session, comm| {
        let root = comm.root(root)?;
        if sendbuf.is_in_place() && comm.me != root {
            return Err(Fault::new(Class::Buffer, "MPI_IN_PLACE is for the root"));
        }
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        reduction.everywhere(session, comm, |party, mine, op| Ok(party.reduce(mine, op, root)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allreduce(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Allreduce", |session, comm| {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        reduction.everywhere(session, comm, |party, mine, op| Ok(Some(party.allreduce(mine, op)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scan(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Scan", |session, comm| {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        reduction.everywhere(session, comm, |party, mine, op| Ok(Some(party.scan(mine, op)?)))
    })
}

/// The first member's result is left alone, as the standard lets it.
#[unsafe(no_mangle)]
extern "C" fn MPI_Exscan(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Exscan", |session, comm| {
        let reduction = Reduction { send: sendbuf, recv: recvbuf, count, datatype, op };
        reduction.everywhere(session, comm, |party, mine, op| Ok(party.exscan(mine, op)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Reduce_scatter(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    recvcounts: Array<c_int>,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Reduce_scatter", |session, comm| {
        let counts = recvcounts.get(comm.size())?;
        reduce_scatter(session, comm, (sendbuf, recvbuf), counts, datatype, op)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Reduce_scatter_block(
    sendbuf: Buffer,
    recvbuf: BufferMut,
    recvcount: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Reduce_scatter_block", |session, comm| {
        let counts = vec![recvcount; comm.size()];
        reduce_scatter(session, comm, (sendbuf, recvbuf), &counts, datatype, op)
    })
}

fn reduce_scatter(
    session: &Session,
    comm: &Comm,
    (send, recv): (Buffer, BufferMut),
    counts: &[c_int],
    datatype: Handle,
    op: Handle,
) -> Outcome {
    let size = session.datatype(datatype)?.layout.size();
    let (mut parts, mut end): (Vec<Range<usize>>, usize) = (Vec::with_capacity(counts.len()), 0);
    let mut all: c_int = 0;
    for &count in counts {
        let part = counted(count)?;
        let too_many = || Fault::new(Class::Count, "counts whose sum is no count");
        all = all.checked_add(count).ok_or_else(too_many)?;
        let next = end + part * size;
        parts.push(end..next);
        end = next;
    }
    let whole = Reduction { send, recv, count: all, datatype, op };
    let (mut reducer, mine) = whole.begin(session)?;
    let into = Elements::written(recv, counts[comm.me], reducer.datatype())?;
    let mut landing = into.landing();
    let place = landing.bytes_mut();
    comm.party(&session.process).reduce_scatter(mine, &mut reducer, &parts, place)?;
    landing.finish(into.bytes);
    Ok(())
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
        let reduction = Reduction { send: inbuf, recv: inoutbuf, count, datatype, op };
        let (mut reducer, mut left) = reduction.begin(session)?;
        let right = Elements::written(inoutbuf, count, reducer.datatype())?;
        let mut right = Span::of(&right.packed());
        reducer.combine(left.as_mut(), right.as_mut())?;
        reduction.deliver(&reducer, &right)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_create(
    function: Option<UserFunction>,
    commute: c_int,
    op: Out<Handle>,
) -> c_int {
    call("MPI_Op_create", |session| {
        let function = function.ok_or_else(|| Fault::new(Class::Arg, "null function"))?;
        let operation = Operation::User { function, commutes: commute != 0 };
        op.set(session.operations.borrow_mut().add(Rc::new(operation))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_free(op: Out<Handle>) -> c_int {
    call("MPI_Op_free", |session| {
        session.operations.borrow_mut().free(op.get()?)?;
        op.set(OP.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_commutative(op: Handle, commute: Out<c_int>) -> c_int {
    call("MPI_Op_commutative", |session| {
        commute.set(c_int::from(session.operation(op)?.commutes()))
    })
}
