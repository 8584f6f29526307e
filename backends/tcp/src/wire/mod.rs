//! The contents of the connections: frames, and the messages in them.
//!
//! No code here opens a socket. Every decoder is bounded and accepts hostile bytes.

mod frame;
mod message;

pub use frame::{DecodeError, Frame, FrameBuffer, MAX_PAYLOAD_BYTES, decode, encode, encode_head};
pub use message::{
    AnyHello, Attach, Chunk, Down, FromNode, FromRoot, Hello, Join, JoinAnswer, Lane, LaneAnswer,
    Member, Operation, PROTOCOL_VERSION, Primitive, Refusal, Request, RequestId, Seq, StageId,
    TreeHello, Up, View, Welcome,
};
