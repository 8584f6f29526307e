//! The library's objects as owned values. Each object keeps alive the objects that it needs, so
//! that none is destroyed while in use. A queue pair holds its completion queue and the memory of
//! its requests. Memory holds its protection domain, and a domain holds its device. All `unsafe`
//! calls of this crate are here and in `library`, which loads the library.

mod address_handle;
mod completion_channel;
mod completion_queue;
mod datagram_pair;
mod device;
mod memory_region;
mod protection_domain;
mod queue_pair;
mod raw_pair;

pub use address_handle::AddressHandle;
pub use completion_channel::CompletionChannel;
pub use completion_queue::{Completion, CompletionQueue, Completions, Outcome, Wanted};
pub use datagram_pair::{DatagramPair, Destination, Room, Taken};
pub use device::{Device, DeviceEvent, OpenDevice, Port, link_layer_name, mtu_bytes};
pub use memory_region::{Access, MemoryRegion};
pub use protection_domain::ProtectionDomain;
pub use queue_pair::{Endpoint, Notice, QueuePair, RemoteAddr, Route, Source, Sources};
