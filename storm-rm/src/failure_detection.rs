//! failure_detection
