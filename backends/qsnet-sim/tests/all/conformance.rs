//! QsNet and the trees of messages keep the contract: the whole conformance suite runs on each,
//! with and without load.

use std::rc::Rc;
use storm_primitives::conformance::SimFactory;
use storm_primitives::sim::Fabric;
use storm_qsnet_sim::{Load, Machine, Profile};

fn fabric(profile: &str, nodes: u32, load: Load) -> Rc<dyn Fabric> {
    let profile = Profile::builtin(profile).expect("built in");
    let machine = Machine::new(profile, nodes.max(1)).expect("small").under(load);
    machine.fabric().expect("a built-in profile makes sense")
}

fn factory(profile: &'static str, load: Load) -> SimFactory<()> {
    SimFactory::on(move |nodes| fabric(profile, nodes, load))
}

mod es40_qsnet {
    use super::*;
    storm_primitives::conformance_tests!(factory("es40-qsnet", Load::NONE));
}

mod loaded_qsnet {
    use super::*;
    storm_primitives::conformance_tests!(factory("es40-qsnet", Load { cpu: true, network: true }));
}

mod gigabit_ethernet {
    use super::*;
    storm_primitives::conformance_tests!(factory("gigabit-ethernet", Load::NETWORK));
}
