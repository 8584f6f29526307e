//! An info object: hints of a program. The library keeps it, and uses no hint.

/// Keys and their values, in the order in which they came.
#[derive(Clone, Default)]
pub(crate) struct Info {
    pub(crate) pairs: Vec<(String, String)>,
}

impl Info {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, key: String, value: String) {
        match self.pairs.iter_mut().find(|(own, _)| *own == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key, value)),
        }
    }
}
