//! The frames for [`crate::fuzzing`].

pub(crate) use super::frame::FRAME_BYTES;
use super::frame::Frame;

pub(crate) fn frame(head: &[u8; FRAME_BYTES]) {
    let Ok(frame) = Frame::decode(head) else { return };
    assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
}
