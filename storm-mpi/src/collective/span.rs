//! Memory for elements of any type: bytes, aligned for all of them.

/// Zeroed bytes, aligned to 16. No element type of C on this machine needs more, so operations may
/// treat the bytes as elements.
#[derive(Clone, Debug, Default)]
pub struct Span {
    words: Vec<u128>,
    bytes: usize,
}

impl Span {
    /// `bytes` zeroed bytes.
    pub fn zeroed(bytes: usize) -> Self {
        Span { words: vec![0; bytes.div_ceil(size_of::<u128>())], bytes }
    }

    /// Changes the length to `bytes`; the contents are then undefined.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.words.resize(bytes.div_ceil(size_of::<u128>()), 0);
        self.bytes = bytes;
    }

    /// A copy of `data`.
    pub fn of(data: &[u8]) -> Self {
        let mut span = Span::zeroed(data.len());
        span.as_mut().copy_from_slice(data);
        span
    }
}

impl AsRef<[u8]> for Span {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the words are at least `bytes` initialized bytes, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes) }
    }
}

impl AsMut<[u8]> for Span {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`; any bytes are valid words.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_as_long_as_asked_for() {
        for bytes in [0, 1, 15, 16, 17] {
            let data: Vec<u8> = (1..=bytes).collect();
            let span = Span::of(&data);
            assert_eq!(span.as_ref(), data);
            assert_eq!(span.as_ref().as_ptr() as usize % 16, 0);
        }
    }
}
