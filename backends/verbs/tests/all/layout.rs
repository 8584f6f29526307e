//! Compares the hand-written ABI with the library's header: a C program prints every size,
//! alignment, offset and value of `abi`, as the C compiler sees it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;
use storm_backend_verbs::abi::{self, qp_mask};

/// The expected values, by C expression.
type Claims = BTreeMap<&'static str, u64>;

const HEADER: &str = "/usr/include/infiniband/verbs.h";
/// If set, a host without the header fails this test instead of skipping it.
const REQUIRED: &str = "STORM_TEST_VERBS";

macro_rules! sizes {
    ($claims:ident, $($c:literal is $rust:ident,)*) => {
        $(
            $claims.insert(concat!("sizeof(", $c, ")"), size_of::<abi::$rust>() as u64);
            $claims.insert(concat!("_Alignof(", $c, ")"), align_of::<abi::$rust>() as u64);
        )*
    };
}

macro_rules! offsets {
    ($claims:ident, $c:literal is $rust:ident: $($field:ident)*) => {
        $($claims.insert(
            concat!("offsetof(", $c, ", ", stringify!($field), ")"),
            offset_of!(abi::$rust, $field) as u64,
        );)*
    };
}

macro_rules! values {
    ($claims:ident, $($c:literal is $value:expr,)*) => {
        $($claims.insert($c, u64::from($value as u32));)*
    };
}

#[test]
fn the_layouts_are_those_of_the_header() {
    let mut claims = objects();
    claims.extend(attributes());
    claims.extend(requests());
    claims.extend(constants());
    if !Path::new(HEADER).exists() {
        assert!(
            std::env::var_os(REQUIRED).is_none(),
            "{HEADER} is not here: install libibverbs-dev"
        );
        eprintln!("NOT CHECKED: {} layouts, as {HEADER} is not here", claims.len());
        return;
    }
    let found = ask_the_compiler(claims.keys().copied());
    assert_eq!(found.len(), claims.len(), "one answer to each");
    let wrong: Vec<_> =
        claims.iter().filter(|(what, claimed)| found.get(**what) != Some(claimed)).collect();
    assert!(wrong.is_empty(), "the header says otherwise of {wrong:?}");
}

fn objects() -> Claims {
    let mut claims = Claims::new();
    sizes!(claims, "struct ibv_context_ops" is ContextOps, "struct ibv_mr" is MemoryRegion, "struct ibv_comp_channel" is CompletionChannel, "union ibv_gid" is Gid,);
    offsets!(claims, "struct ibv_context_ops" is ContextOps: poll_cq req_notify_cq post_send post_recv);
    offsets!(claims, "struct ibv_context" is Context: device ops cmd_fd async_fd);
    offsets!(claims, "struct ibv_mr" is MemoryRegion: context pd addr length handle lkey rkey);
    offsets!(claims, "struct ibv_comp_channel" is CompletionChannel: context fd refcnt);
    offsets!(claims, "struct ibv_cq" is CompletionQueue: context);
    offsets!(claims, "struct ibv_qp" is QueuePair: context qp_context pd send_cq recv_cq srq handle qp_num);
    offsets!(claims, "union ibv_gid" is Gid: raw);
    claims
}

fn attributes() -> Claims {
    let mut claims = Claims::new();
    sizes!(claims, "struct ibv_port_attr" is PortAttr, "struct ibv_qp_cap" is QpCap, "struct ibv_qp_init_attr" is QpInitAttr, "struct ibv_global_route" is GlobalRoute, "struct ibv_ah_attr" is AhAttr, "struct ibv_qp_attr" is QpAttr,);
    offsets!(claims, "struct ibv_port_attr" is PortAttr: state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout init_type_reply active_width active_speed phys_state link_layer flags port_cap_flags2);
    offsets!(claims, "struct ibv_qp_cap" is QpCap: max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data);
    offsets!(claims, "struct ibv_qp_init_attr" is QpInitAttr: qp_context send_cq recv_cq srq cap qp_type sq_sig_all);
    offsets!(claims, "struct ibv_global_route" is GlobalRoute: dgid flow_label sgid_index hop_limit traffic_class);
    offsets!(claims, "struct ibv_ah_attr" is AhAttr: grh dlid sl src_path_bits static_rate is_global port_num);
    offsets!(claims, "struct ibv_qp_attr" is QpAttr: qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags cap ah_attr alt_ah_attr pkey_index alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit);
    claims
}

fn requests() -> Claims {
    let mut claims = Claims::new();
    sizes!(claims, "struct ibv_sge" is Sge, "struct ibv_send_wr" is SendRequest, "struct ibv_recv_wr" is ReceiveRequest, "struct ibv_wc" is WorkCompletion, "struct ibv_async_event" is AsyncEvent,);
    offsets!(claims, "struct ibv_sge" is Sge: addr length lkey);
    offsets!(claims, "struct ibv_send_wr" is SendRequest: wr_id next sg_list num_sge opcode send_flags imm_data);
    let at = offset_of!(abi::SendRequest, remote_addr) as u64;
    claims.insert("offsetof(struct ibv_send_wr, wr.rdma.remote_addr)", at);
    let at = offset_of!(abi::SendRequest, rkey) as u64;
    claims.insert("offsetof(struct ibv_send_wr, wr.rdma.rkey)", at);
    let at = offset_of!(abi::SendRequest, remote_addr) as u64;
    claims.insert("offsetof(struct ibv_send_wr, wr.ud.ah)", at);
    let at = offset_of!(abi::SendRequest, rkey) as u64;
    claims.insert("offsetof(struct ibv_send_wr, wr.ud.remote_qpn)", at);
    let at = offset_of!(abi::SendRequest, remote_qkey) as u64;
    claims.insert("offsetof(struct ibv_send_wr, wr.ud.remote_qkey)", at);
    offsets!(claims, "struct ibv_recv_wr" is ReceiveRequest: wr_id next sg_list num_sge);
    offsets!(claims, "struct ibv_wc" is WorkCompletion: wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags pkey_index slid sl dlid_path_bits);
    offsets!(claims, "struct ibv_async_event" is AsyncEvent: element event_type);
    claims
}

fn constants() -> Claims {
    let mut claims = Claims::new();
    values!(claims,
        "IBV_PORT_ACTIVE" is abi::PORT_ACTIVE,
        "IBV_LINK_LAYER_ETHERNET" is abi::LINK_LAYER_ETHERNET,
        "IBV_QPT_RC" is abi::QPT_RC,
        "IBV_QPT_UD" is abi::QPT_UD,
        "IBV_QPS_INIT" is abi::QPS_INIT,
        "IBV_QPS_RTR" is abi::QPS_RTR,
        "IBV_QPS_RTS" is abi::QPS_RTS,
        "IBV_QPS_ERR" is abi::QPS_ERR,
        "IBV_ACCESS_LOCAL_WRITE" is abi::ACCESS_LOCAL_WRITE,
        "IBV_ACCESS_REMOTE_WRITE" is abi::ACCESS_REMOTE_WRITE,
        "IBV_WR_RDMA_WRITE" is abi::WR_RDMA_WRITE,
        "IBV_WR_RDMA_WRITE_WITH_IMM" is abi::WR_RDMA_WRITE_WITH_IMM,
        "IBV_WR_SEND" is abi::WR_SEND,
        "IBV_SEND_SIGNALED" is abi::SEND_SIGNALED,
        "IBV_SEND_SOLICITED" is abi::SEND_SOLICITED,
        "IBV_SEND_INLINE" is abi::SEND_INLINE,
        "IBV_WC_RDMA_WRITE" is abi::WC_RDMA_WRITE,
        "IBV_WC_RECV" is abi::WC_RECV,
        "IBV_WC_RECV_RDMA_WITH_IMM" is abi::WC_RECV_RDMA_WITH_IMM,
        "IBV_WC_WR_FLUSH_ERR" is abi::WC_WR_FLUSH_ERR,
        "IBV_WC_RETRY_EXC_ERR" is abi::WC_RETRY_EXC_ERR,
        "IBV_EVENT_COMM_EST" is abi::EVENT_COMM_EST,
        "IBV_EVENT_DEVICE_FATAL" is abi::EVENT_DEVICE_FATAL,
        "IBV_EVENT_PORT_ERR" is abi::EVENT_PORT_ERR,
        "IBV_QP_STATE" is qp_mask::STATE,
        "IBV_QP_ACCESS_FLAGS" is qp_mask::ACCESS_FLAGS,
        "IBV_QP_PKEY_INDEX" is qp_mask::PKEY_INDEX,
        "IBV_QP_PORT" is qp_mask::PORT,
        "IBV_QP_QKEY" is qp_mask::QKEY,
        "IBV_QP_AV" is qp_mask::AV,
        "IBV_QP_PATH_MTU" is qp_mask::PATH_MTU,
        "IBV_QP_TIMEOUT" is qp_mask::TIMEOUT,
        "IBV_QP_RETRY_CNT" is qp_mask::RETRY_CNT,
        "IBV_QP_RNR_RETRY" is qp_mask::RNR_RETRY,
        "IBV_QP_RQ_PSN" is qp_mask::RQ_PSN,
        "IBV_QP_MAX_QP_RD_ATOMIC" is qp_mask::MAX_QP_RD_ATOMIC,
        "IBV_QP_MIN_RNR_TIMER" is qp_mask::MIN_RNR_TIMER,
        "IBV_QP_SQ_PSN" is qp_mask::SQ_PSN,
        "IBV_QP_MAX_DEST_RD_ATOMIC" is qp_mask::MAX_DEST_RD_ATOMIC,
        "IBV_QP_DEST_QPN" is qp_mask::DEST_QPN,
    );
    claims
}

/// The value of each expression.
fn ask_the_compiler(expressions: impl Iterator<Item = &'static str>) -> BTreeMap<String, u64> {
    let mut source = format!("#include <stddef.h>\n#include <stdio.h>\n#include \"{HEADER}\"\n");
    source.push_str("int main(void) {\n");
    for expression in expressions {
        let _ = writeln!(
            source,
            "printf(\"%s = %llu\\n\", \"{expression}\", (unsigned long long)({expression}));"
        );
    }
    source.push_str("return 0; }\n");
    let dir = tempfile::tempdir().expect("a directory");
    let (file, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&file, source).expect("written");
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(&file).output().expect("cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("it was just compiled");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let (what, value) = line.rsplit_once(" = ").expect("an answer");
        (what.to_owned(), value.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}
