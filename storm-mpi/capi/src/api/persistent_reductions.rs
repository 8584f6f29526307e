//! Reductions that a request starts repeatedly.

use super::reductions::{Reduction, exscan, scan, scattered, to_all, to_root};
use super::tables::persistent_collectives;
use crate::abi::{Array, Buffer, BufferMut, Out};
use crate::datatype::Type;
use crate::fault::Outcome;
use crate::kept::Kept;
use crate::members::{Members, persistent};
use crate::operation::Operation;
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;

/// The arguments that all reductions have, as the program passed them.
struct Arguments {
    send: Buffer,
    recv: BufferMut,
    count: c_int,
    datatype: Handle,
    op: Handle,
}

/// The arguments, kept for a request.
struct KeptArguments {
    send: Buffer,
    recv: BufferMut,
    count: c_int,
    datatype: Kept<Type>,
    op: Kept<Operation>,
}

impl Arguments {
    fn kept(self, session: &'static Session) -> Outcome<KeptArguments> {
        let Arguments { send, recv, count, datatype, op } = self;
        let datatype = Kept::datatype(session, datatype)?;
        Ok(KeptArguments { send, recv, count, datatype, op: Kept::operation(session, op)? })
    }
}

impl KeptArguments {
    /// The reduction of one start.
    fn reduction(&self) -> Reduction {
        let &KeptArguments { send, recv, count, .. } = self;
        Reduction { send, recv, count, datatype: self.datatype.handle(), op: self.op.handle() }
    }
}

persistent_collectives! {
    fn MPI_Reduce_init(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
        root: c_int,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |session, _| {
            let kept = of.kept(session)?;
            Ok(move |all| to_root(all, kept.reduction(), root))
        }
    }

    fn MPI_Allreduce_init(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |session, _| {
            let kept = of.kept(session)?;
            Ok(move |all| to_all(all, kept.reduction()))
        }
    }

    fn MPI_Scan_init(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |session, _| {
            let kept = of.kept(session)?;
            Ok(move |all| scan(all, kept.reduction()))
        }
    }

    fn MPI_Exscan_init(
        sendbuf: Buffer, recvbuf: BufferMut, count: c_int, datatype: Handle, op: Handle,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count, datatype, op };
        move |session, _| {
            let kept = of.kept(session)?;
            Ok(move |all| exscan(all, kept.reduction()))
        }
    }

    fn MPI_Reduce_scatter_init(
        sendbuf: Buffer, recvbuf: BufferMut, recvcounts: Array<c_int>, datatype: Handle, op: Handle,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count: 0, datatype, op };
        move |session, comm| {
            let kept = of.kept(session)?;
            let recvcounts = Rc::new(recvcounts.kept(comm.size()));
            Ok(move |all| {
                let recvcounts = Rc::clone(&recvcounts);
                let counts = move |all: &Members| Ok(recvcounts.array().get(all.comm.size())?.to_vec());
                scattered(all, kept.reduction(), counts)
            })
        }
    }

    fn MPI_Reduce_scatter_block_init(
        sendbuf: Buffer, recvbuf: BufferMut, recvcount: c_int, datatype: Handle, op: Handle,
    ) {
        let of = Arguments { send: sendbuf, recv: recvbuf, count: 0, datatype, op };
        move |session, _| {
            let kept = of.kept(session)?;
            Ok(move |all| {
                let counts = move |all: &Members| Ok(vec![recvcount; all.comm.size()]);
                scattered(all, kept.reduction(), counts)
            })
        }
    }
}
