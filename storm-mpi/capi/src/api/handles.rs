//! Handles for programs in Fortran: the same numbers.

use crate::table::Handle;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Op_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Request_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Request_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Errhandler_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Errhandler_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Message_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Message_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_f2c(handle: c_int) -> Handle {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_c2f(handle: Handle) -> c_int {
    handle
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_f2c(handle: c_int) -> Handle {
    handle
}
