//! Numbers of processes and the like, as users write them.

/// At least 1.
pub(super) fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        Ok(_) => Err("at least 1 is expected".to_owned()),
        Err(_) => Err(format!("a whole number from 1 to {} is expected, as 4", u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_count;

    #[test]
    fn only_what_can_be_counted_is_taken() {
        assert_eq!(parse_count("4"), Ok(4));
        for text in ["0", "-1", "two", "", "1.5", "4294967296"] {
            assert!(
                parse_count(text)
                    .is_err_and(|why| why.ends_with("expected, as 4") != (text == "0"))
            );
        }
    }
}
