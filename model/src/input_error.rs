//! Invalid input: the fault, the reason, and advice.

use crate::KeyRange;
use thiserror::Error;

/// A value that the model refuses.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InputError {
    /// No machine.
    #[error("a machine of 0 nodes launches nothing")]
    NoNodes,
    /// More nodes than the model is meant for.
    #[error("{nodes} nodes are more than the {max} up to which the model counts exactly")]
    TooManyNodes {
        /// The number asked for.
        nodes: u64,
        /// The bound.
        max: u64,
    },
    /// A tree without children.
    #[error("a tree of fan-out 0 reaches no node")]
    NoFanOut,
    /// More children than a node can have.
    #[error("a fan-out of {fan_out} is more than the {max} children that a node can have")]
    FanOutTooLarge {
        /// The fan-out asked for.
        fan_out: u32,
        /// The bound.
        max: u32,
    },
    /// The next strobe would be sent before the nodes have switched.
    #[error(
        "a time slice of {quantum_us} us is over before the nodes have switched: the strobe takes \
         {strobe_us:.1} us and the switch {switch_us:.1} us"
    )]
    QuantumUnderStrobe {
        /// The quantum asked for, in us.
        quantum_us: f64,
        /// The strobe, in us.
        strobe_us: f64,
        /// The switch, in us.
        switch_us: f64,
    },
    /// The Node Managers of this machine cannot keep up with time slices this short.
    #[error("a time slice of {quantum_us} us is shorter than this machine handles ({known_from})")]
    QuantumUnderShortest {
        /// The quantum asked for, in us.
        quantum_us: f64,
        /// The shortest, in us.
        shortest_us: f64,
        /// The source of the shortest quantum.
        known_from: String,
    },
    /// A setting that the machine does not have.
    #[error("a {setting} has no meaning in the model of {profile}")]
    WithoutMeaning {
        /// The setting given.
        setting: &'static str,
        /// The machine.
        profile: String,
    },
    /// A value of a profile is out of the range of its key.
    #[error("{key} is {} {unit}: it must be {range}", short(*value))]
    OutsideKey {
        /// The key.
        key: &'static str,
        /// The value given.
        value: f64,
        /// The unit.
        unit: &'static str,
        /// The valid values.
        range: KeyRange,
    },
    /// A fitted value of a profile is outside its own confidence interval.
    #[error("{key} is {}, outside of its own confidence interval", short(*value))]
    OutsideInterval {
        /// The key.
        key: &'static str,
        /// The value given.
        value: f64,
    },
    /// A number that is not finite, or out of range.
    #[error("{name} is {} {unit}: it must be {wanted}", short(*value))]
    OutOfRange {
        /// The name.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The unit.
        unit: &'static str,
        /// The valid values.
        wanted: &'static str,
    },
}

impl InputError {
    /// The key of the profile that the error is about, if any.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            InputError::OutsideKey { key, .. } | InputError::OutsideInterval { key, .. } => {
                Some(key)
            }
            InputError::NoNodes
            | InputError::TooManyNodes { .. }
            | InputError::NoFanOut
            | InputError::FanOutTooLarge { .. }
            | InputError::QuantumUnderStrobe { .. }
            | InputError::QuantumUnderShortest { .. }
            | InputError::WithoutMeaning { .. }
            | InputError::OutOfRange { .. } => None,
        }
    }

    /// Advice to the user.
    pub fn hint(&self) -> String {
        match self {
            InputError::NoNodes => "give at least 1 node".to_owned(),
            InputError::TooManyNodes { max, .. } => format!("give at most {max} nodes"),
            InputError::NoFanOut => "give a fan-out of at least 1, or `auto`".to_owned(),
            InputError::FanOutTooLarge { max, .. } => {
                format!("give a fan-out of at most {max}, or `auto`")
            }
            InputError::QuantumUnderStrobe { strobe_us, switch_us, .. } => {
                let least_us = strobe_us + switch_us;
                format!("give at least {least_us:.0} us; 50 times that costs at most 2 %")
            }
            InputError::QuantumUnderShortest { shortest_us, .. } => {
                format!("give at least {shortest_us:.0} us")
            }
            InputError::WithoutMeaning { setting, .. } => {
                format!("leave the {setting} out, or take another machine profile")
            }
            InputError::OutsideKey { key, unit, range, .. } => {
                format!("give {key} in {unit}, {range}; the key ends in the unit")
            }
            InputError::OutsideInterval { key, .. } => {
                format!("give {key} a value from low to high, or leave low and high out")
            }
            InputError::OutOfRange { name, unit, wanted, .. } => {
                format!("give {name} in {unit}, {wanted}")
            }
        }
    }
}

/// A number in its shortest notation.
fn short(value: f64) -> String {
    let usual = value == 0.0 || !value.is_finite() || (1e-6..1e15).contains(&value.abs());
    if usual { value.to_string() } else { format!("{value:e}") }
}

/// `value` if it is finite and not negative.
pub(crate) fn not_negative(
    name: &'static str,
    unit: &'static str,
    value: f64,
) -> Result<f64, InputError> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(InputError::OutOfRange { name, value, unit, wanted: "finite and not negative" })
    }
}

/// `value` if it is finite and more than zero.
pub(crate) fn positive(
    name: &'static str,
    unit: &'static str,
    value: f64,
) -> Result<f64, InputError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(InputError::OutOfRange { name, value, unit, wanted: "finite and more than 0" })
    }
}
