//! Finds the line of a key in a file, for values that parse but are wrong. For text that does not
//! parse, the parser's message names the line.

use toml::de::{DeTable, DeValue};

/// The line, from 1, at which the value of a key such as `nodes[0].pes` begins. If the key is not
/// written, the line of the innermost table or array around it that is. `None` if no part of the
/// key is written.
pub(super) fn line_of(text: &str, key: &str) -> Option<u32> {
    let file = DeTable::parse(text).ok()?;
    let (mut table, mut at) = (Some(file.get_ref()), None);
    for segment in key.split('.') {
        let mut parts = segment.split('[');
        let name = parts.next()?;
        let Some((written, mut value)) =
            table.and_then(|table| table.iter().find(|(known, _)| known.get_ref() == name))
        else {
            break;
        };
        at = Some(written.span().start);
        for index in parts {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            let DeValue::Array(elements) = value.get_ref() else { break };
            let Some(element) = elements.get(index) else { break };
            (value, at) = (element, Some(element.span().start));
        }
        table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    let before = text.as_bytes().get(..at?)?;
    let earlier = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(1 + earlier).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cluster = \"lab\"\n\n[[nodes]]\nnames = \"a\"\n\n# a comment\n[[nodes]]\npes = 2\n\
                        \n[clients]\nusers = [\n  1,\n  2,\n]\nnested.deep = 3\n";

    #[test]
    fn a_key_is_found_or_that_which_it_would_be_in() {
        for (key, line) in [
            ("cluster", Some(1)),
            ("nodes", Some(3)),
            ("nodes[0].names", Some(4)),
            ("nodes[1]", Some(7)),
            ("nodes[1].pes", Some(8)),
            ("nodes[1].memory", Some(7)),
            ("nodes[7].pes", Some(3)),
            ("clients.users[1]", Some(13)),
            ("clients.nested.deep", Some(15)),
            ("clients.listen", Some(10)),
            ("timeouts.node-dead", None),
            ("", None),
            ("nodes[x]", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
        assert_eq!(line_of("no = = toml", "no"), None);
    }
}
