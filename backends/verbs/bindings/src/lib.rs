//! Compares the handwritten layouts of `storm-backend-verbs` with those of the crate `rdma-sys`,
//! most of which bindgen generates from the header. Only a test, built apart from the product
//! (`.ci/bindings`).
