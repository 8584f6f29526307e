//! The part of libpmix's binary interface that this crate uses: `pmix_common.h` and `pmix_server.h`
//! of PMIx 4. Later releases with the same soname keep it. A test compares it with the header.

use std::ffi::{c_char, c_int, c_void};

/// `pmix_status_t`.
pub type Status = c_int;

/// `PMIX_SUCCESS`.
pub const SUCCESS: Status = 0;
/// `PMIX_ERROR`.
pub const ERROR: Status = -1;
/// `PMIX_ERR_NOT_FOUND`.
pub const ERR_NOT_FOUND: Status = -46;
/// `PMIX_ERR_NOT_SUPPORTED`.
pub const ERR_NOT_SUPPORTED: Status = -47;
/// `PMIX_OPERATION_SUCCEEDED`: already done, without a callback.
pub const OPERATION_SUCCEEDED: Status = -157;

/// `PMIX_BOOL`.
pub const BOOL: u16 = 1;
/// `PMIX_STRING`.
pub const STRING: u16 = 3;
/// `PMIX_UINT16`.
pub const UINT16: u16 = 13;
/// `PMIX_UINT32`.
pub const UINT32: u16 = 14;
/// `PMIX_INFO`.
pub const INFO: u16 = 24;
/// `PMIX_DATA_ARRAY`.
pub const DATA_ARRAY: u16 = 39;
/// `PMIX_PROC_RANK`.
pub const PROC_RANK: u16 = 40;
/// `PMIX_REGEX`.
pub const REGEX: u16 = 49;

/// `PMIX_RANK_WILDCARD`: all ranks of a namespace.
pub const RANK_WILDCARD: u32 = u32::MAX - 1;

/// `PMIX_MAX_NSLEN` and its NUL.
pub const NSPACE_BYTES: usize = 256;
/// `PMIX_MAX_KEYLEN` and its NUL.
pub const KEY_BYTES: usize = 512;

/// `pmix_proc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Proc {
    /// Name, ended by NUL.
    pub nspace: [c_char; NSPACE_BYTES],
    /// Rank in the namespace.
    pub rank: u32,
}

/// `pmix_byte_object_t`, used here for a string with NULs in it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ByteObject {
    /// Address of the bytes.
    pub bytes: *mut c_char,
    /// Number of bytes.
    pub size: usize,
}

/// The union in `pmix_value_t`; its longest member has three words.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Data {
    /// For `BOOL`.
    pub flag: bool,
    /// For `STRING`.
    pub string: *mut c_char,
    /// For `UINT16`.
    pub uint16: u16,
    /// For `UINT32` and `PROC_RANK`.
    pub uint32: u32,
    /// For `REGEX`.
    pub bo: ByteObject,
    /// For `DATA_ARRAY`.
    pub darray: *mut DataArray,
    /// As long as the longest member.
    pub words: [usize; 3],
}

/// `pmix_value_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    /// The member of the union.
    pub kind: u16,
    /// The member's value.
    pub data: Data,
}

/// `pmix_info_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Info {
    /// Key, ended by NUL.
    pub key: [c_char; KEY_BYTES],
    /// Flags, such as whether the key must be understood.
    pub flags: u32,
    /// The value of the key.
    pub value: Value,
}

/// `pmix_data_array_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DataArray {
    /// Type of the elements.
    pub kind: u16,
    /// Number of elements.
    pub size: usize,
    /// Address of the elements.
    pub array: *mut c_void,
}

/// `pmix_op_cbfunc_t`.
pub type OpDone = unsafe extern "C" fn(status: Status, cbdata: *mut c_void);
/// `pmix_release_cbfunc_t`.
pub type Release = unsafe extern "C" fn(cbdata: *mut c_void);
/// `pmix_modex_cbfunc_t`.
pub type ModexDone = unsafe extern "C" fn(
    status: Status,
    data: *const c_char,
    ndata: usize,
    cbdata: *mut c_void,
    release: Option<Release>,
    release_cbdata: *mut c_void,
);

/// `pmix_server_client_connected_fn_t` and `pmix_server_client_finalized_fn_t`.
pub type ClientFn = unsafe extern "C" fn(
    proc: *const Proc,
    server_object: *mut c_void,
    done: Option<OpDone>,
    cbdata: *mut c_void,
) -> Status;
/// `pmix_server_abort_fn_t`.
pub type AbortFn = unsafe extern "C" fn(
    proc: *const Proc,
    server_object: *mut c_void,
    status: c_int,
    msg: *const c_char,
    procs: *mut Proc,
    nprocs: usize,
    done: Option<OpDone>,
    cbdata: *mut c_void,
) -> Status;
/// `pmix_server_fencenb_fn_t`.
pub type FenceFn = unsafe extern "C" fn(
    procs: *const Proc,
    nprocs: usize,
    info: *const Info,
    ninfo: usize,
    data: *mut c_char,
    ndata: usize,
    done: Option<ModexDone>,
    cbdata: *mut c_void,
) -> Status;
/// `pmix_server_dmodex_req_fn_t`.
pub type DirectModexFn = unsafe extern "C" fn(
    proc: *const Proc,
    info: *const Info,
    ninfo: usize,
    done: Option<ModexDone>,
    cbdata: *mut c_void,
) -> Status;
/// `pmix_server_spawn_fn_t`, without the types that this crate does not use.
pub type SpawnFn = unsafe extern "C" fn(
    proc: *const Proc,
    job_info: *const Info,
    ninfo: usize,
    apps: *const c_void,
    napps: usize,
    done: *mut c_void,
    cbdata: *mut c_void,
) -> Status;
/// A function that this server does not have. NULL gives the client PMIX_ERR_NOT_SUPPORTED.
pub type Absent = Option<unsafe extern "C" fn()>;

/// `pmix_server_module_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ServerModule {
    /// Called when a client has connected.
    pub client_connected: Option<ClientFn>,
    /// Called when a client has called PMIx_Finalize.
    pub client_finalized: Option<ClientFn>,
    /// Called when a client asks for the end of other processes.
    pub abort: Option<AbortFn>,
    /// Called when all participants of this node are in a fence.
    pub fence_nb: Option<FenceFn>,
    /// Called when a client asks for data that a rank of another node has not given in a fence.
    pub direct_modex: Option<DirectModexFn>,
    /// publish, lookup, unpublish.
    pub names: [Absent; 3],
    /// Called when a client asks for further processes.
    pub spawn: Option<SpawnFn>,
    /// connect, disconnect, register_events, deregister_events, listener.
    pub v1: [Absent; 5],
    /// notify_event, query, tool_connected, log, allocate, job_control, monitor.
    pub v2: [Absent; 7],
    /// get_credential, validate_credential, iof_pull, push_stdin.
    pub v3: [Absent; 4],
    /// group, fabric, client_connected2.
    pub v4: [Absent; 3],
    /// Functions that releases after 4 added.
    pub later: [Absent; 8],
}

/// `PMIx_Get_version`.
pub type GetVersionFn = unsafe extern "C" fn() -> *const c_char;
/// `PMIx_Error_string`.
pub type ErrorStringFn = unsafe extern "C" fn(status: Status) -> *const c_char;
/// `PMIx_server_init`.
pub type ServerInitFn =
    unsafe extern "C" fn(module: *mut ServerModule, info: *mut Info, ninfo: usize) -> Status;
/// `PMIx_generate_regex` and `PMIx_generate_ppn`.
pub type GenerateFn =
    unsafe extern "C" fn(input: *const c_char, output: *mut *mut c_char) -> Status;
/// `PMIx_server_register_nspace`.
pub type RegisterNspaceFn = unsafe extern "C" fn(
    nspace: *const c_char,
    local_procs: c_int,
    info: *mut Info,
    ninfo: usize,
    done: Option<OpDone>,
    cbdata: *mut c_void,
) -> Status;
/// `PMIx_server_register_client`.
pub type RegisterClientFn = unsafe extern "C" fn(
    proc: *const Proc,
    uid: u32,
    gid: u32,
    server_object: *mut c_void,
    done: Option<OpDone>,
    cbdata: *mut c_void,
) -> Status;
/// `PMIx_server_setup_fork`.
pub type SetupForkFn =
    unsafe extern "C" fn(proc: *const Proc, env: *mut *mut *mut c_char) -> Status;
