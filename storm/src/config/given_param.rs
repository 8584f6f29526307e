//! A policy's setting on a command line: `NAME=VALUE`, with the names and ranges of a
//! partition's `params`.

use std::str::FromStr;
use storm_sched::PolicyParams;
use thiserror::Error;

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenParam {
    name: String,
    value: String,
}

/// The reason why a `NAME=VALUE` is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ParamProblem {
    /// The text is not `NAME=VALUE`.
    #[error("NAME=VALUE is expected, for example mpl-limit=4")]
    Form,
    /// No policy has a setting of this name.
    #[error("there is no parameter {name:?}: use {}", listing())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The setting does not take this value.
    #[error("{name} is {values}{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Value {
        /// The name.
        name: String,
        /// The values that the setting takes.
        values: &'static str,
        /// The parser's reason, if it adds something to `values`.
        why: Option<String>,
    },
    /// The same setting is given twice, perhaps with different values.
    #[error("{name} is given twice: give it once")]
    Twice {
        /// The name, and the option for the same setting.
        name: String,
    },
}

impl GivenParam {
    /// The name of the setting.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `NAME=VALUE`, for another command line.
    pub(crate) fn written(&self) -> String {
        format!("{}={}", self.name, self.value)
    }

    /// The settings with this one changed.
    fn applied(&self, params: PolicyParams) -> Result<PolicyParams, ParamProblem> {
        let known = PolicyParams::NAMES.iter().find(|(known, _)| *known == self.name);
        let Some((_, values)) = known else {
            return Err(ParamProblem::Unknown { name: self.name.clone() });
        };
        let refused =
            |why: Option<String>| ParamProblem::Value { name: self.name.clone(), values, why };
        let mut table = toml::Table::try_from(params).map_err(|_| refused(None))?;
        table.insert(self.name.clone(), value_of(&self.value));
        table.try_into().map_err(|error: toml::de::Error| {
            let why = error.message().lines().next().unwrap_or_default().to_owned();
            // The parser adds nothing to the words that `values` lists, but it names a range.
            refused(Some(why).filter(|why| why.contains("out of range")))
        })
    }
}

impl FromStr for GivenParam {
    type Err = ParamProblem;

    fn from_str(text: &str) -> Result<GivenParam, ParamProblem> {
        let (name, value) = text.split_once('=').ok_or(ParamProblem::Form)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || value.is_empty() {
            return Err(ParamProblem::Form);
        }
        let given = GivenParam { name: name.to_owned(), value: value.to_owned() };
        given.applied(PolicyParams::default())?;
        Ok(given)
    }
}

/// The settings with the given ones changed.
pub(crate) fn with_params(
    params: PolicyParams,
    given: &[GivenParam],
) -> Result<PolicyParams, ParamProblem> {
    for (index, param) in given.iter().enumerate() {
        if given[..index].iter().any(|before| before.name == param.name) {
            return Err(ParamProblem::Twice { name: param.name.clone() });
        }
    }
    given.iter().try_fold(params, |params, given| given.applied(params))
}

/// Refuses a parameter that is given both by `--param` and by its own option.
///
/// # Errors
/// `given` has a parameter of this name.
pub(crate) fn refuse_both(
    option: &str,
    name: &str,
    given: &[GivenParam],
) -> Result<(), ParamProblem> {
    match given.iter().any(|param| param.name == name) {
        true => Err(ParamProblem::Twice { name: format!("{option} (--param {name})") }),
        false => Ok(()),
    }
}

/// The value as in a configuration file, except that text needs no quotes on the command line.
fn value_of(text: &str) -> toml::Value {
    let number = text.parse().ok().map(toml::Value::Integer);
    let either = || text.parse().ok().map(toml::Value::Boolean);
    number.or_else(either).unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn listing() -> String {
    let names = PolicyParams::NAMES.iter().map(|(name, values)| format!("{name} ({values})"));
    names.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_sched::Packing;

    fn given(text: &str) -> Result<GivenParam, String> {
        text.parse().map_err(|problem: ParamProblem| problem.to_string())
    }

    #[test]
    fn settings_are_given_by_the_names_of_a_partition() {
        let all = ["mpl-limit=4", "packing=best-fit", "repack=true", "quantum-us = 2000"];
        let all: Vec<GivenParam> = all.iter().map(|text| given(text).expect(text)).collect();
        let params = with_params(PolicyParams::default(), &all).expect("they are good");
        assert_eq!((params.mpl_limit.get(), params.packing), (4, Packing::BestFit));
        assert!(params.repack);
        assert_eq!(params.quantum_us.duration().as_millis(), 2);
        let written: Vec<String> = all.iter().map(GivenParam::written).collect();
        assert_eq!(written, ["mpl-limit=4", "packing=best-fit", "repack=true", "quantum-us=2000"]);
    }

    #[test]
    fn errors_name_settings_and_ranges() {
        let unknown = given("quantum=50ms").unwrap_err();
        for (name, values) in PolicyParams::NAMES {
            assert!(unknown.contains(&format!("{name} ({values})")), "{unknown}");
        }
        for (text, said) in [
            ("mpl-limit=0", "mpl-limit is 1 to 1024"),
            ("mpl-limit=x", "mpl-limit is 1 to 1024"),
            ("quantum-us=5", "use 100 us to 1 h"),
            ("packing=tetris", "packing is first-fit, best-fit"),
            ("repack=yes", "repack is true or false"),
            ("repack", "NAME=VALUE is expected"),
            ("=4", "NAME=VALUE is expected"),
        ] {
            let told = given(text).unwrap_err();
            assert!(told.contains(said), "{text}: {told}");
        }
        let twice = [given("mpl-limit=2").unwrap(), given("mpl-limit=3").unwrap()];
        let twice = with_params(PolicyParams::default(), &twice).unwrap_err();
        assert_eq!(twice.to_string(), "mpl-limit is given twice: give it once");
        let given = [given("quantum-us=2000").unwrap()];
        assert!(refuse_both("--quantum", "quantum-us", &given).is_err());
        assert_eq!(refuse_both("--mpl-limit", "mpl-limit", &given), Ok(()));
    }
}
