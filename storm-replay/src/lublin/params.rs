//! The parameters of the model, for each class of jobs.

/// A class of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobClass {
    /// Batch jobs.
    Batch,
    /// Interactive jobs.
    Interactive,
    /// All jobs alike.
    Typeless,
}

/// Parameters of the number of processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeParams {
    /// The probability that a job has one processor.
    pub serial: f64,
    /// The probability of a power of two above it.
    pub power_of_two: f64,
    /// The base-2 logarithm of the smallest parallel job.
    pub log2_low: f64,
    /// The probability of the lower of the two stages.
    pub lower_stage: f64,
}

/// Parameters of the run time: a mixture of two gamma distributions of its natural logarithm in
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTimeParams {
    /// Shape and scale of the shorter jobs.
    pub short: (f64, f64),
    /// Shape and scale of the longer jobs.
    pub long: (f64, f64),
    /// The change of the probability of the shorter distribution per processor.
    pub slope: f64,
    /// The probability at zero processors.
    pub intercept: f64,
}

/// Parameters of the arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalParams {
    /// Shape and scale of a gamma distribution: the natural logarithm of the
    /// seconds between two arrivals in the rush hours.
    pub rush: (f64, f64),
    /// The factor of the shape for all hours of the day.
    pub rush_to_all: f64,
    /// Shape and scale of a gamma distribution over half-hours: the daily
    /// cycle.
    pub day: (f64, f64),
}

/// All parameters of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassParams {
    /// The number of processors.
    pub size: SizeParams,
    /// The run time.
    pub run_time: RunTimeParams,
    /// The arrivals.
    pub arrivals: ArrivalParams,
}

impl JobClass {
    /// The published parameters.
    #[must_use]
    pub const fn params(self) -> ClassParams {
        match self {
            Self::Batch => ClassParams {
                size: SizeParams {
                    serial: 0.2927,
                    power_of_two: 0.6686,
                    log2_low: 1.2,
                    lower_stage: 0.875,
                },
                run_time: RunTimeParams {
                    short: (6.57, 0.823),
                    long: (639.1, 0.0156),
                    slope: -0.003,
                    intercept: 0.6986,
                },
                arrivals: ArrivalParams {
                    rush: (6.0415, 0.8531),
                    rush_to_all: 1.0519,
                    day: (6.1271, 5.2740),
                },
            },
            Self::Interactive => ClassParams {
                size: SizeParams {
                    serial: 0.1541,
                    power_of_two: 0.625,
                    log2_low: 1.0,
                    lower_stage: 0.705,
                },
                run_time: RunTimeParams {
                    short: (3.8351, 0.6605),
                    long: (7.073, 0.6856),
                    slope: -0.0118,
                    intercept: 0.9156,
                },
                arrivals: ArrivalParams {
                    rush: (6.5510, 0.6621),
                    rush_to_all: 0.9797,
                    day: (8.9186, 3.6680),
                },
            },
            Self::Typeless => ClassParams {
                size: SizeParams {
                    serial: 0.244,
                    power_of_two: 0.576,
                    log2_low: 0.8,
                    lower_stage: 0.86,
                },
                run_time: RunTimeParams {
                    short: (4.2, 0.94),
                    long: (312.0, 0.03),
                    slope: -0.0054,
                    intercept: 0.78,
                },
                arrivals: ArrivalParams {
                    rush: (10.2303, 0.4871),
                    rush_to_all: 1.0225,
                    day: (8.1737, 3.9631),
                },
            },
        }
    }

    /// The queue that the authors' program gives the class in a log.
    #[must_use]
    pub const fn queue(self) -> i64 {
        match self {
            Self::Batch => 1,
            Self::Interactive | Self::Typeless => 0,
        }
    }
}
