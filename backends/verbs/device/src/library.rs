//! `libibverbs.so.1`, loaded at run time: STORM builds and runs on a machine without it.

use crate::VerbsError;
use crate::abi::Functions;
use libloading::Library;
use std::sync::OnceLock;

/// The name under which every distribution has the library.
const SONAME: &str = "libibverbs.so.1";

/// The library, loaded on first use and never unloaded.
///
/// # Errors
/// [`VerbsError::NoLibrary`], [`VerbsError::NoSymbol`].
pub(crate) fn functions() -> Result<&'static Functions, VerbsError> {
    static LOADED: OnceLock<Functions> = OnceLock::new();
    if let Some(functions) = LOADED.get() {
        return Ok(functions);
    }
    let functions = load()?;
    Ok(LOADED.get_or_init(|| functions))
}

fn load() -> Result<Functions, VerbsError> {
    // SAFETY: the library is the system's. Loading it runs the same initialisers as in any program
    // that is linked with it.
    let library = unsafe { Library::new(SONAME) }.map_err(VerbsError::NoLibrary)?;
    let functions = look_up(&library)?;
    // The library stays loaded, because its functions are used for ever.
    std::mem::forget(library);
    // When a process forks, kernels before 5.12 may move the pages of its queues, unless this call
    // was made (ibv_fork_init(3)). On later kernels, the call does nothing. SAFETY: the call has no
    // arguments. If other code in this process has already registered memory, the call fails and
    // changes nothing.
    let code = unsafe { (functions.fork_init)() };
    if code != 0 {
        tracing::warn!(code, "this process must not fork while it uses RDMA (ibv_fork_init)");
    }
    Ok(functions)
}

fn look_up(library: &Library) -> Result<Functions, VerbsError> {
    macro_rules! symbol {
        ($name:literal) => {{
            // SAFETY: the type is that of the symbol's field in `Functions`, which is the prototype
            // in `infiniband/verbs.h`. It is the same in all versions of the library with this
            // soname.
            let symbol = unsafe { library.get(concat!($name, "\0").as_bytes()) };
            *symbol.map_err(|source| VerbsError::NoSymbol { symbol: $name, source })?
        }};
    }
    Ok(Functions {
        fork_init: symbol!("ibv_fork_init"),
        get_device_list: symbol!("ibv_get_device_list"),
        free_device_list: symbol!("ibv_free_device_list"),
        get_device_name: symbol!("ibv_get_device_name"),
        open_device: symbol!("ibv_open_device"),
        close_device: symbol!("ibv_close_device"),
        query_port: symbol!("ibv_query_port"),
        query_gid: symbol!("ibv_query_gid"),
        get_async_event: symbol!("ibv_get_async_event"),
        ack_async_event: symbol!("ibv_ack_async_event"),
        event_type_str: symbol!("ibv_event_type_str"),
        alloc_pd: symbol!("ibv_alloc_pd"),
        dealloc_pd: symbol!("ibv_dealloc_pd"),
        reg_mr: symbol!("ibv_reg_mr"),
        dereg_mr: symbol!("ibv_dereg_mr"),
        create_comp_channel: symbol!("ibv_create_comp_channel"),
        destroy_comp_channel: symbol!("ibv_destroy_comp_channel"),
        create_cq: symbol!("ibv_create_cq"),
        destroy_cq: symbol!("ibv_destroy_cq"),
        get_cq_event: symbol!("ibv_get_cq_event"),
        ack_cq_events: symbol!("ibv_ack_cq_events"),
        create_qp: symbol!("ibv_create_qp"),
        modify_qp: symbol!("ibv_modify_qp"),
        destroy_qp: symbol!("ibv_destroy_qp"),
        create_ah: symbol!("ibv_create_ah"),
        destroy_ah: symbol!("ibv_destroy_ah"),
        attach_mcast: symbol!("ibv_attach_mcast"),
        detach_mcast: symbol!("ibv_detach_mcast"),
        wc_status_str: symbol!("ibv_wc_status_str"),
    })
}
