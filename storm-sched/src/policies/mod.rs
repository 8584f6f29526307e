//! The policies, one file each; [`crate::registry`] lists them.

pub mod bcs;
pub mod conservative;
pub mod easy;
pub mod easy_sjbf;
pub mod fcfs;
pub mod fcs;
pub mod gang;
pub mod ics;
pub mod local;
pub mod pb;
pub mod sjf;

pub use bcs::Bcs;
pub use conservative::Conservative;
pub use easy::Easy;
pub use easy_sjbf::EasySjbf;
pub use fcfs::Fcfs;
pub use gang::Gang;
pub use sjf::Sjf;
