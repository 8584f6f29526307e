//! Memory for messages. The library needs no special memory, so this module uses the C library's.

use crate::abi::Out;
use crate::call::call;
use crate::fault::{Class, Fault};
use crate::table::Handle;
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(start: *mut c_void);
}

/// Memory of `MPI_Alloc_mem`. Only a C caller has it.
#[repr(transparent)]
struct Allocated(*mut c_void);

#[unsafe(no_mangle)]
extern "C" fn MPI_Alloc_mem(size: isize, _info: Handle, baseptr: Out<*mut c_void>) -> c_int {
    call("MPI_Alloc_mem", |_| {
        let negative = |_| Fault::new(Class::Arg, format!("memory of {size} bytes"));
        let bytes = usize::try_from(size).map_err(negative)?;
        // SAFETY: C's own function, of any number of bytes.
        let start = unsafe { malloc(bytes.max(1)) };
        if start.is_null() {
            return Err(Fault::new(Class::NoMemory, format!("no memory of {size} bytes")));
        }
        baseptr.set(start)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Free_mem(base: Allocated) -> c_int {
    call("MPI_Free_mem", |_| {
        // SAFETY: the caller passes memory of `MPI_Alloc_mem` that it has not freed, or null.
        unsafe { free(base.0) };
        Ok(())
    })
}
