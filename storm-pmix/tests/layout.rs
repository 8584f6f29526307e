//! Compares the hand-written ABI with the library's header. A C program prints every size, offset
//! and value of `abi`, as the C compiler sees it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;
use storm_pmix::abi::{
    self, ByteObject, Data, DataArray, Info, KEY_BYTES, NSPACE_BYTES, Proc, ServerModule, Value,
};

/// Required values, by their C expressions.
type Claims = BTreeMap<&'static str, i64>;

/// Directories of the headers: for Debian's `libpmix-dev`, and elsewhere.
const INCLUDES: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/pmix2/include", "/usr/include"];
/// If this variable is set, a host without the header fails this test instead of skipping it.
const REQUIRED: &str = "STORM_TEST_MPI";

macro_rules! offsets {
    ($claims:ident, $($c:literal is $rust:ident: $($field:ident = $member:literal)*,)*) => {
        $($($claims.insert(
            concat!("offsetof(", $c, ", ", $member, ")"),
            offset_of!($rust, $field) as i64,
        );)*)*
    };
}

macro_rules! values {
    ($claims:ident, $($c:literal is $value:expr,)*) => {
        $($claims.insert($c, i64::from($value));)*
    };
}

#[test]
fn the_layouts_are_those_of_the_header() {
    let claims = claims();
    let include = INCLUDES.iter().find(|dir| Path::new(dir).join("pmix_server.h").exists());
    let Some(include) = include else {
        assert!(std::env::var_os(REQUIRED).is_none(), "no pmix_server.h: install libpmix-dev");
        eprintln!("NOT CHECKED: {} layouts, as pmix_server.h is not here", claims.len());
        return;
    };
    let found = ask_the_compiler(include, claims.keys().copied());
    assert_eq!(found.len(), claims.len(), "one answer to each");
    let wrong: Vec<_> =
        claims.iter().filter(|(what, claimed)| found.get(**what) != Some(claimed)).collect();
    assert!(wrong.is_empty(), "the header says otherwise of {wrong:?}");
}

fn claims() -> Claims {
    let mut claims = Claims::new();
    offsets!(claims,
        "pmix_proc_t" is Proc: nspace = "nspace" rank = "rank",
        "pmix_byte_object_t" is ByteObject: bytes = "bytes" size = "size",
        "pmix_value_t" is Value: kind = "type" data = "data",
        "pmix_info_t" is Info: key = "key" flags = "flags" value = "value",
        "pmix_data_array_t" is DataArray: kind = "type" size = "size" array = "array",
        "pmix_server_module_t" is ServerModule: client_connected = "client_connected"
            client_finalized = "client_finalized" abort = "abort" fence_nb = "fence_nb"
            direct_modex = "direct_modex" names = "publish" spawn = "spawn" v1 = "connect"
            v2 = "notify_event" v3 = "get_credential" v4 = "group",
    );
    values!(claims,
        "PMIX_SUCCESS" is abi::SUCCESS,
        "PMIX_ERROR" is abi::ERROR,
        "PMIX_ERR_NOT_FOUND" is abi::ERR_NOT_FOUND,
        "PMIX_ERR_NOT_SUPPORTED" is abi::ERR_NOT_SUPPORTED,
        "PMIX_OPERATION_SUCCEEDED" is abi::OPERATION_SUCCEEDED,
        "PMIX_BOOL" is abi::BOOL,
        "PMIX_STRING" is abi::STRING,
        "PMIX_UINT16" is abi::UINT16,
        "PMIX_UINT32" is abi::UINT32,
        "PMIX_INFO" is abi::INFO,
        "PMIX_DATA_ARRAY" is abi::DATA_ARRAY,
        "PMIX_PROC_RANK" is abi::PROC_RANK,
        "PMIX_REGEX" is abi::REGEX,
        "(pmix_rank_t)(PMIX_RANK_WILDCARD)" is abi::RANK_WILDCARD,
    );
    for (size, bytes) in [
        ("sizeof(pmix_proc_t)", size_of::<Proc>()),
        ("sizeof(pmix_nspace_t)", NSPACE_BYTES),
        ("sizeof(pmix_key_t)", KEY_BYTES),
        ("sizeof(((pmix_value_t *)0)->data)", size_of::<Data>()),
        ("sizeof(pmix_value_t)", size_of::<Value>()),
        ("sizeof(pmix_info_t)", size_of::<Info>()),
        ("sizeof(pmix_data_array_t)", size_of::<DataArray>()),
    ] {
        claims.insert(size, bytes as i64);
    }
    claims
}

#[test]
fn buffers_for_the_library_are_as_long_as_it_may_read() {
    // Later releases add functions at the end.
    assert!(size_of::<ServerModule>() > 28 * size_of::<usize>());
}

/// The value of each expression.
fn ask_the_compiler(
    include: &str,
    expressions: impl Iterator<Item = &'static str>,
) -> BTreeMap<String, i64> {
    let mut source =
        "#include <stddef.h>\n#include <stdio.h>\n#include <pmix_server.h>\n".to_owned();
    source.push_str("int main(void) {\n");
    for expression in expressions {
        let _ = writeln!(
            source,
            "printf(\"%s = %lld\\n\", \"{expression}\", (long long)({expression}));"
        );
    }
    source.push_str("return 0; }\n");
    let dir = tempfile::tempdir().expect("a directory");
    let (file, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&file, source).expect("written");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(include).arg("-o").arg(&program).arg(&file);
    let compiled = compiler.output().expect("cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("it was just compiled");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let (what, value) = line.rsplit_once(" = ").expect("an answer");
        (what.to_owned(), value.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}
