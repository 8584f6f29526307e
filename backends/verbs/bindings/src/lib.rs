//! A test only: compares the handwritten layouts of `storm-backend-verbs` with those of the crate
//! `rdma-sys`, most of which bindgen generates from the header. Built apart from the product
//! (`.ci/bindings`).
