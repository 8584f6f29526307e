//! Collectives with as many elements for each member.

use super::vectors::{Whole, all_from_all, all_to_root, from_root, gather_all};
use crate::abi::{Buffer, BufferMut};
use crate::fault::Outcome;
use crate::memory::Elements;
use crate::session::on;
use crate::spread::Spread;
use crate::table::Handle;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn MPI_Barrier(comm: Handle) -> c_int {
    on(comm, "MPI_Barrier", |session, comm| Ok(comm.party(&session.process).barrier()?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Bcast(
    buffer: BufferMut,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Bcast", |session, comm| -> Outcome {
        let root = comm.root(root)?;
        let elements = Elements::written(buffer, count, &*session.datatype(datatype)?)?;
        let party = comm.party(&session.process);
        if comm.me == root {
            // It sends only: its memory is not written, and may be read-only.
            return Ok(party.bcast(&mut elements.copied(), root)?);
        }
        let mut landing = elements.landing();
        party.bcast(landing.bytes_mut(), root)?;
        landing.finish(elements.bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Gather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Gather", |session, comm| {
        let into = |members| {
            Spread::even(recvbuf.read(), recvcount, &*session.datatype(recvtype)?, members)
        };
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        all_to_root(session, comm, mine, &into, root)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Scatter(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Scatter", |session, comm| {
        let from =
            |members| Spread::even(sendbuf, sendcount, &*session.datatype(sendtype)?, members);
        let mine = Whole { buffer: recvbuf.read(), count: recvcount, datatype: recvtype };
        from_root(session, comm, &from, mine, root)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Allgather(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Allgather", |session, comm| {
        let datatype = session.datatype(recvtype)?;
        let into = Spread::even(recvbuf.read(), recvcount, &datatype, comm.size())?;
        let mine = Whole { buffer: sendbuf, count: sendcount, datatype: sendtype };
        gather_all(session, comm, mine, &into)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Alltoall(
    sendbuf: Buffer,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: BufferMut,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    on(comm, "MPI_Alltoall", |session, comm| {
        let datatype = session.datatype(recvtype)?;
        let into = Spread::even(recvbuf.read(), recvcount, &datatype, comm.size())?;
        let from = match sendbuf.is_in_place() {
            true => None,
            false => {
                let datatype = session.datatype(sendtype)?;
                Some(Spread::even(sendbuf, sendcount, &datatype, comm.size())?)
            }
        };
        all_from_all(session, comm, from.as_ref(), &into)
    })
}
