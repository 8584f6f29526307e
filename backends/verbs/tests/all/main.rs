//! Tests that need no device.

mod layout;
