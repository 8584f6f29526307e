//! Lists of hosts.

/// Folds names: `n[1-4,7]`. Names that cannot be folded are listed with commas.
pub fn fold_hosts(names: &[&str]) -> String {
    let list = names.join(",");
    // A name that the notation does not allow is shown as it is.
    match list.parse::<nodeset::NodeSet>() {
        Ok(set) if !names.is_empty() => set.to_string(),
        Ok(_) | Err(_) => list,
    }
}
