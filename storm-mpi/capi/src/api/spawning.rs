//! Functions that start or connect further processes while a job runs (MPI-4.1, chapter 11). The
//! library supports none. Each function fails with the standard's class of error, and tells what to
//! do instead.

use super::tables::two_names;
use crate::abi::{Array, ArrayMut, Out, Text, TextOut, counted};
use crate::call::{call, on};
use crate::fault::{Class, Fault, Outcome};
use crate::table::{COMM, Handle};
use std::ffi::{c_char, c_int};

const NO_SPAWNING: &str = "processes cannot be spawned: start as many as the program needs with the job (storm submit -n)";
const NO_PORTS: &str =
    "jobs cannot be connected: start all processes as one job, and split MPI_COMM_WORLD";

/// Fails without a new process. Each requested process gets an error code, if the program wants
/// them.
fn refused(count: usize, intercomm: Out<Handle>, mut codes: ArrayMut<c_int>) -> Outcome {
    intercomm.set(COMM.null())?;
    // Null is `MPI_ERRCODES_IGNORE`.
    if let Ok(codes) = codes.get(count) {
        codes.fill(Class::Spawn.code());
    }
    Err(Fault::new(Class::Spawn, NO_SPAWNING))
}

fn not_connected(intercomm: Out<Handle>, class: Class) -> Outcome {
    intercomm.set(COMM.null())?;
    Err(Fault::new(class, NO_PORTS))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_spawn(
    _command: Text,
    _argv: Array<*mut c_char>,
    maxprocs: c_int,
    _info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: Out<Handle>,
    codes: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Comm_spawn", |_, comm| {
        // Only the root's number of processes counts.
        let asked = if comm.root(root)? == comm.me { counted(maxprocs)? } else { 0 };
        refused(asked, intercomm, codes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_spawn_multiple(
    count: c_int,
    _commands: Array<*mut c_char>,
    _argvs: Array<*mut *mut c_char>,
    maxprocs: Array<c_int>,
    _infos: Array<Handle>,
    root: c_int,
    comm: Handle,
    intercomm: Out<Handle>,
    codes: ArrayMut<c_int>,
) -> c_int {
    on(comm, "MPI_Comm_spawn_multiple", |_, comm| {
        let mut asked = 0;
        if comm.root(root)? == comm.me {
            for &processes in maxprocs.get(counted(count)?)? {
                asked += counted(processes)?;
            }
        }
        refused(asked, intercomm, codes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Open_port(_info: Handle, _port: TextOut) -> c_int {
    call("MPI_Open_port", |_| Err(Fault::new(Class::Port, NO_PORTS)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Close_port(_port: Text) -> c_int {
    call("MPI_Close_port", |_| Err(Fault::new(Class::Port, NO_PORTS)))
}

two_names! {
    fn MPI_Comm_accept, MPI_Comm_connect(
        _port: Text, _info: Handle, _root: c_int, comm: Handle, newcomm: Out<Handle>,
    ) |name| {
        on(comm, name, |_, _| not_connected(newcomm, Class::Port))
    }

    fn MPI_Publish_name, MPI_Unpublish_name(_service: Text, _info: Handle, _port: Text) |name| {
        call(name, |_| Err(Fault::new(Class::Service, NO_PORTS)))
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_join(_fd: c_int, intercomm: Out<Handle>) -> c_int {
    call("MPI_Comm_join", |_| not_connected(intercomm, Class::Other))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Lookup_name(_service: Text, _info: Handle, _port: TextOut) -> c_int {
    call("MPI_Lookup_name", |_| Err(Fault::new(Class::Name, NO_PORTS)))
}
