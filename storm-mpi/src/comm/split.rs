//! The new communicators of a split (MPI-4.1, section 7.4.2).

/// A member's choice when its communicator is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Members with the same color come together; `None` stays alone (`MPI_UNDEFINED`).
    pub color: Option<i32>,
    /// Order among them: lower keys first, then lower places in the old communicator.
    pub key: i32,
}

impl Choice {
    /// Bytes of [`Choice::encode`].
    pub const BYTES: usize = 9;

    /// The choice in the form that other members get: whether there is a color, color, key.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = u8::from(self.color.is_some());
        bytes[1..5].copy_from_slice(&self.color.unwrap_or(0).to_le_bytes());
        bytes[5..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// The choice whose [`Choice::encode`] gave these bytes.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [has, c0, c1, c2, c3, key @ ..] = bytes;
        let color = (has != 0).then_some(i32::from_le_bytes([c0, c1, c2, c3]));
        Choice { color, key: i32::from_le_bytes(key) }
    }
}

/// The places, in the old communicator, of the members that come together with `me`, in their new
/// order. Empty when `me` chose no color.
pub fn chosen_together(choices: &[Choice], me: usize) -> Vec<usize> {
    let Some(color) = choices.get(me).and_then(|choice| choice.color) else { return Vec::new() };
    of_color(choices, color)
}

/// The places of the members that chose this color, in their new order.
pub fn of_color(choices: &[Choice], color: i32) -> Vec<usize> {
    let mut places: Vec<usize> =
        (0..choices.len()).filter(|&place| choices[place].color == Some(color)).collect();
    places.sort_by_key(|&place| (choices[place].key, place));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_then_places_decide_the_order() {
        let choice = |color, key| Choice { color, key };
        let choices = [
            choice(Some(1), 5),
            choice(Some(2), 0),
            choice(Some(1), -3),
            choice(None, 0),
            choice(Some(1), 5),
        ];
        assert_eq!(chosen_together(&choices, 0), [2, 0, 4]);
        assert_eq!(chosen_together(&choices, 1), [1]);
        assert_eq!(chosen_together(&choices, 3), []);
        for choice in choices {
            assert_eq!(Choice::decode(choice.encode()), choice);
        }
    }
}
