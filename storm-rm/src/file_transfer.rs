//! file_transfer
