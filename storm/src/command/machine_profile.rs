//! Machine profiles by name or from a file, for the model and the simulator.

use crate::failure::Failure;
use crate::output::Sheet;
use storm_qsnet_sim::Profile;
use storm_sim::profile::NamedProfileError;

/// The failure's word for programs: the profile does not exist or is not sound.
const CODE: &str = "profile";

/// The profile that the user named, built in or from a file. The whole profile is checked, even if
/// only a part is used.
pub(super) fn named(name: &str) -> Result<Profile, Failure> {
    Ok(storm_sim::profile::named(name)?)
}

/// The profile as a file that [`named`] reads; programs get its values.
pub(super) fn shown(profile: &Profile) -> Result<Sheet, Failure> {
    let text = profile.to_toml();
    let values: toml::Table = toml::from_str(&text).map_err(|error| Failure::of(CODE, &error))?;
    Ok(Sheet::new(&values).verbatim(HEAD.to_owned() + &text))
}

/// The comment at the top of a printed profile.
const HEAD: &str = "\
# A machine, for `storm model ... --profile FILE` and for `storm sim`, whose scenario
# names the FILE as its profile. Change what you know better, and say in `source`
# where it is from. A line that begins with # is not there: see \"left out\".
";

impl From<NamedProfileError> for Failure {
    fn from(error: NamedProfileError) -> Failure {
        let hint = error.hint();
        Failure::of(CODE, &error).hint(hint)
    }
}
