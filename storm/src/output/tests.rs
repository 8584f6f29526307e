//! What commands print.
