//! Changes of statuses by programs.

use crate::abi::{Out, Status, counted};
use crate::call::call;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;

/// Records in a status that `count` numbers arrived, of elements of this type.
fn set_elements(session: &Session, status: Out<Status>, datatype: Handle, count: usize) -> Outcome {
    let datatype = session.datatype(datatype)?;
    let layout = &datatype.layout;
    let wrong = || Fault::new(Class::Count, format!("{count} numbers of {}", datatype.to_text()));
    let each = layout.numbers_in(layout.size()).filter(|&each| each > 0);
    let bytes = match each {
        None if count == 0 => Some(0),
        None => None,
        Some(each) => {
            // The numbers of an element may have different lengths.
            let ends = |bytes: &usize| layout.numbers_in(*bytes) == Some(count % each);
            let part = (0..layout.size()).find(ends);
            let whole = (count / each).checked_mul(layout.size());
            whole.and_then(|whole| whole.checked_add(part?))
        }
    };
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(wrong)?;
    status.set(Status { bytes, ..status.get()? })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Status_set_elements(
    status: Out<Status>,
    datatype: Handle,
    count: c_int,
) -> c_int {
    call("MPI_Status_set_elements", |session| {
        set_elements(session, status, datatype, counted(count)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Status_set_elements_x(
    status: Out<Status>,
    datatype: Handle,
    count: i64,
) -> c_int {
    call("MPI_Status_set_elements_x", |session| {
        let negative = |_| Fault::new(Class::Count, format!("count of {count}"));
        set_elements(session, status, datatype, usize::try_from(count).map_err(negative)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Status_set_cancelled(status: Out<Status>, flag: c_int) -> c_int {
    call("MPI_Status_set_cancelled", |_| {
        status.set(Status { cancelled: c_int::from(flag != 0), ..status.get()? })
    })
}
