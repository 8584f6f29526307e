//! Handles for programs in Fortran: the same numbers.

use crate::table::Handle;
use std::ffi::c_int;

macro_rules! handles {
    ($(fn $to_fortran:ident, $from_fortran:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $to_fortran(handle: Handle) -> c_int {
            handle
        }

        #[unsafe(no_mangle)]
        extern "C" fn $from_fortran(handle: c_int) -> Handle {
            handle
        }
    )*};
}

handles! {
    fn MPI_Comm_c2f, MPI_Comm_f2c;
    fn MPI_Type_c2f, MPI_Type_f2c;
    fn MPI_Group_c2f, MPI_Group_f2c;
    fn MPI_Op_c2f, MPI_Op_f2c;
    fn MPI_Request_c2f, MPI_Request_f2c;
    fn MPI_Info_c2f, MPI_Info_f2c;
    fn MPI_Errhandler_c2f, MPI_Errhandler_f2c;
    fn MPI_Message_c2f, MPI_Message_f2c;
    fn MPI_Win_c2f, MPI_Win_f2c;
    fn MPI_File_c2f, MPI_File_f2c;
}
