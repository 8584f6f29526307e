//! The contract holds through tracing, delays and an injector without faults:
//! the whole suite again.

use std::time::Duration;
use storm_primitives::conformance::{SimFactory, Wrap};
use storm_primitives::middleware::{Delay, DelayRange, FaultInjector, FaultPlan, Tracer};
use storm_primitives::sim::SimPrimitives;

#[derive(Clone, Copy)]
struct Traced;

impl Wrap for Traced {
    type Wrapped = Tracer<SimPrimitives>;

    fn wrap(&self, inner: SimPrimitives, _seed: u64) -> Self::Wrapped {
        Tracer::new(inner, 64)
    }
}

#[derive(Clone, Copy)]
struct Delayed;

impl Wrap for Delayed {
    type Wrapped = Delay<SimPrimitives>;

    fn wrap(&self, inner: SimPrimitives, seed: u64) -> Self::Wrapped {
        let range = DelayRange { min: Duration::ZERO, max: Duration::from_micros(300) };
        Delay::new(inner, range, seed)
    }
}

#[derive(Clone, Copy)]
struct Late;

impl Wrap for Late {
    type Wrapped = FaultInjector<SimPrimitives>;

    fn wrap(&self, inner: SimPrimitives, seed: u64) -> Self::Wrapped {
        FaultInjector::new(inner, FaultPlan::new().random(seed, 0, Duration::from_micros(200)))
    }
}

mod traced {
    use super::*;
    storm_primitives::conformance_tests!(SimFactory::around(Traced));
}

mod delayed {
    use super::*;
    storm_primitives::conformance_tests!(SimFactory::around(Delayed));
}

mod late {
    use super::*;
    storm_primitives::conformance_tests!(SimFactory::around(Late));
}
