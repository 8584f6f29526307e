//! Sizes of memory as Slurm writes them.

const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// A size in the largest unit that divides it, `1536M` or `2G`; without `convert`, in MiB, rounded
/// up. Nothing is `0`.
pub(super) fn mebibytes(bytes: u64, convert: bool) -> String {
    let mut count = bytes.div_ceil(1 << 20);
    let mut unit = 1;
    while convert && count > 0 && count.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        count /= 1024;
        unit += 1;
    }
    if count == 0 { "0".to_owned() } else { format!("{count}{}", UNITS[unit]) }
}

/// A size of so many KiB in the unit that the user chose, or in the largest unit that divides it.
/// A chosen unit has two decimals, as sacct prints `--units=M`.
pub(super) fn kibibytes(kib: u64, unit: UnitChoice) -> String {
    match unit {
        UnitChoice::Bytes => kib.saturating_mul(1024).to_string(),
        _ if kib == 0 => "0".to_owned(),
        UnitChoice::Fitting => {
            let (mut count, mut unit) = (kib, 0);
            while count.is_multiple_of(1024) && unit + 1 < UNITS.len() {
                count /= 1024;
                unit += 1;
            }
            format!("{count}{}", UNITS[unit])
        }
        UnitChoice::Of(unit) => {
            let steps = UNITS.iter().position(|known| *known == unit).unwrap_or(0);
            let divisor = 1_u64 << (10 * steps);
            match kib.is_multiple_of(divisor) {
                true => format!("{}{unit}", kib / divisor),
                false => format!("{:.2}{unit}", kib as f64 / divisor as f64),
            }
        }
    }
}

/// The unit of sizes in sacct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitChoice {
    /// The largest unit that divides the size.
    #[default]
    Fitting,
    /// Bytes, without a letter (`--noconvert`).
    Bytes,
    /// This unit, of `KMGTP` (`--units`).
    Of(char),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_size_gets_a_larger_unit() {
        for (mib, converted, plain) in
            [(0, "0", "0"), (100, "100M", "100M"), (1536, "1536M", "1536M"), (2048, "2G", "2048M")]
        {
            assert_eq!(mebibytes(mib << 20, true), converted);
            assert_eq!(mebibytes(mib << 20, false), plain);
        }
        assert_eq!(mebibytes(1, true), "1M");
    }

    #[test]
    fn sacct_writes_sizes_in_the_unit_asked_for() {
        for (kib, fitting, bytes, mib) in [
            (0, "0", "0", "0"),
            (3044, "3044K", "3117056", "2.97M"),
            (10_812, "10812K", "11071488", "10.56M"),
            (2048, "2M", "2097152", "2M"),
        ] {
            assert_eq!(kibibytes(kib, UnitChoice::Fitting), fitting);
            assert_eq!(kibibytes(kib, UnitChoice::Bytes), bytes);
            assert_eq!(kibibytes(kib, UnitChoice::Of('M')), mib);
        }
    }
}
