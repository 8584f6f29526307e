//! Every size and offset of `storm_backend_verbs::abi` is that of `rdma-sys`.

use rdma_sys as theirs;
use std::mem::{align_of, offset_of, size_of};

/// The module itself, so that the rest of its crate and its dependencies are not compiled.
#[path = "../../device/src/abi/mod.rs"]
#[allow(dead_code, reason = "only the layouts are compared")]
mod ours;

/// Differences: the item, its value here, its value there.
type Findings = Vec<(String, usize, usize)>;

macro_rules! whole {
    ($found:ident, $ours:ident is $theirs:ident) => {
        let name = |what| format!("{what} of {}", stringify!($theirs));
        $found.push((name("size"), size_of::<ours::$ours>(), size_of::<theirs::$theirs>()));
        $found.push((name("alignment"), align_of::<ours::$ours>(), align_of::<theirs::$theirs>()));
    };
}

macro_rules! fields {
    ($found:ident, $ours:ident is $theirs:ident: $($field:ident)*) => {$(
        $found.push((
            format!("{}.{}", stringify!($theirs), stringify!($field)),
            offset_of!(ours::$ours, $field),
            offset_of!(theirs::$theirs, $field),
        ));
    )*};
}

#[test]
fn the_layouts_are_those_of_rdma_sys() {
    let mut found = Findings::new();
    objects(&mut found);
    attributes(&mut found);
    requests(&mut found);
    assert!(found.len() > 100, "all that is used");
    let wrong: Vec<_> = found.iter().filter(|(_, ours, theirs)| ours != theirs).collect();
    assert!(wrong.is_empty(), "rdma-sys says otherwise (what, here, there): {wrong:?}");
}

fn objects(found: &mut Findings) {
    whole!(found, ContextOps is ibv_context_ops);
    fields!(found, ContextOps is ibv_context_ops: poll_cq req_notify_cq post_send post_recv);
    fields!(found, Context is ibv_context: device ops cmd_fd async_fd);
    whole!(found, MemoryRegion is ibv_mr);
    fields!(found, MemoryRegion is ibv_mr: context pd addr length handle lkey rkey);
    whole!(found, CompletionChannel is ibv_comp_channel);
    fields!(found, CompletionChannel is ibv_comp_channel: context fd refcnt);
    fields!(found, CompletionQueue is ibv_cq: context);
    fields!(found, QueuePair is ibv_qp: context qp_context pd send_cq recv_cq srq handle qp_num);
    whole!(found, Gid is ibv_gid);
}

fn attributes(found: &mut Findings) {
    whole!(found, PortAttr is ibv_port_attr);
    fields!(found, PortAttr is ibv_port_attr: state max_mtu active_mtu gid_tbl_len port_cap_flags
        max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl
        subnet_timeout init_type_reply active_width active_speed phys_state link_layer flags
        port_cap_flags2);
    whole!(found, QpCap is ibv_qp_cap);
    fields!(found, QpCap is ibv_qp_cap: max_send_wr max_recv_wr max_send_sge max_recv_sge
        max_inline_data);
    whole!(found, QpInitAttr is ibv_qp_init_attr);
    fields!(found, QpInitAttr is ibv_qp_init_attr: qp_context send_cq recv_cq srq cap qp_type
        sq_sig_all);
    whole!(found, GlobalRoute is ibv_global_route);
    fields!(found, GlobalRoute is ibv_global_route: dgid flow_label sgid_index hop_limit
        traffic_class);
    whole!(found, AhAttr is ibv_ah_attr);
    fields!(found, AhAttr is ibv_ah_attr: grh dlid sl src_path_bits static_rate is_global port_num);
    whole!(found, QpAttr is ibv_qp_attr);
    fields!(found, QpAttr is ibv_qp_attr: qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn
        sq_psn dest_qp_num qp_access_flags cap ah_attr alt_ah_attr pkey_index alt_pkey_index
        en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num
        timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit);
}

fn requests(found: &mut Findings) {
    whole!(found, Sge is ibv_sge);
    fields!(found, Sge is ibv_sge: addr length lkey);
    whole!(found, SendRequest is ibv_send_wr);
    fields!(found, SendRequest is ibv_send_wr: wr_id next sg_list num_sge opcode send_flags);
    whole!(found, ReceiveRequest is ibv_recv_wr);
    fields!(found, ReceiveRequest is ibv_recv_wr: wr_id next sg_list num_sge);
    whole!(found, WorkCompletion is ibv_wc);
    fields!(found, WorkCompletion is ibv_wc: wr_id status opcode vendor_err byte_len qp_num src_qp
        wc_flags pkey_index slid sl dlid_path_bits);
    // Fields that `rdma-sys` calls by the names of their unions.
    let union = "imm_data_invalidated_rkey_union";
    found.push((
        format!("ibv_send_wr.{union}"),
        offset_of!(ours::SendRequest, imm_data),
        offset_of!(theirs::ibv_send_wr, imm_data_invalidated_rkey_union),
    ));
    found.push((
        format!("ibv_wc.{union}"),
        offset_of!(ours::WorkCompletion, imm_data),
        offset_of!(theirs::ibv_wc, imm_data_invalidated_rkey_union),
    ));
    found.push((
        String::from("ibv_send_wr.wr"),
        offset_of!(ours::SendRequest, remote_addr),
        offset_of!(theirs::ibv_send_wr, wr),
    ));
    whole!(found, AsyncEvent is ibv_async_event);
    fields!(found, AsyncEvent is ibv_async_event: event_type);
}
