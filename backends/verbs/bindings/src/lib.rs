//! Nothing but a test: the layouts that `storm-backend-verbs` has written by hand, beside
//! those of the crate `rdma-sys`, which bindgen makes of the header, and for some by others'
//! hands. Built apart from the product (`.ci/bindings`).
