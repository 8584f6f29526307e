//! Queries whose answers are larger than an `int`.

use crate::abi::{Out, Status, UNDEFINED};
use crate::call::call;
use crate::fault::Outcome;
use crate::table::Handle;
use std::ffi::c_int;

fn extent(lower: isize, extent: isize, lb: Out<i64>, extent_out: Out<i64>) -> Outcome {
    lb.set(lower as i64)?;
    extent_out.set(extent as i64)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_size_x(datatype: Handle, size: Out<i64>) -> c_int {
    call("MPI_Type_size_x", |session| size.set(session.datatype(datatype)?.layout.size() as i64))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_extent_x(datatype: Handle, lb: Out<i64>, extent_out: Out<i64>) -> c_int {
    call("MPI_Type_get_extent_x", |session| {
        let datatype = session.datatype(datatype)?;
        extent(datatype.layout.lower(), datatype.layout.extent(), lb, extent_out)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Type_get_true_extent_x(
    datatype: Handle,
    true_lb: Out<i64>,
    true_extent: Out<i64>,
) -> c_int {
    call("MPI_Type_get_true_extent_x", |session| {
        let datatype = session.datatype(datatype)?;
        extent(datatype.layout.true_lower(), datatype.layout.true_extent(), true_lb, true_extent)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Get_elements_x(status: Out<Status>, datatype: Handle, count: Out<i64>) -> c_int {
    call("MPI_Get_elements_x", |session| {
        let bytes = usize::try_from(status.get()?.bytes).unwrap_or(0);
        let numbers = session.datatype(datatype)?.layout.numbers_in(bytes);
        count.set(numbers.map_or(i64::from(UNDEFINED), |numbers| numbers as i64))
    })
}
