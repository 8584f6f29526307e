//! A launch over hardware multicast: Equations 1, 2 and 7, with as many stages
//! of the pipeline as the profile has.

use super::launch::gathered;
use super::{Launch, Part, Question};
use crate::equations::{eq1_launch_ms, eq2_pipeline};
use crate::profile::bandwidth;
use crate::{Limit, MibPerS, Multicast, Profile};

pub(super) fn launch(profile: &Profile, network: &Multicast, question: &Question) -> Launch {
    let host = &profile.host;
    let broadcast = (Limit::Bandwidth, network.bandwidth(question.nodes, question.cable));
    let stages = [
        (Limit::Read, &host.read_mib_s),
        (Limit::Bus, &host.bus_mib_s),
        (Limit::Service, &host.service_mib_s),
        (Limit::Write, &host.write_mib_s),
    ];
    let stages = stages.into_iter().filter_map(|(limit, rate)| Some((limit, rate.as_ref()?)));
    let stages = stages.map(|(limit, rate)| (limit, bandwidth(rate)));
    let slower = |slowest: (Limit, MibPerS), stage: (Limit, MibPerS)| {
        let rate = eq2_pipeline(slowest.1, stage.1);
        if rate < slowest.1 { (stage.0, rate) } else { slowest }
    };
    let (slowest, rate) = stages.fold(broadcast, slower);
    let alone_ms = |rate: &Option<crate::Sourced>| {
        rate.as_ref().map_or(0.0, |rate| bandwidth(rate).time_ms(question.size))
    };
    let transfer_ms = rate.time_ms(question.size);
    let spawn_ms = f64::from(question.processes_per_node) * host.spawn_us.value / 1e3;
    let exec_ms = host.exec_ms.value + spawn_ms;
    let slice_ms = host.timeslice_ms.value;
    Launch {
        read_ms: alone_ms(&host.read_mib_s),
        send_ms: transfer_ms,
        write_ms: alone_ms(&host.write_mib_s),
        transfer_ms,
        exec_ms,
        slice_ms,
        total_ms: eq1_launch_ms(transfer_ms, exec_ms, slice_ms),
        parts: gathered([
            Part { limit: slowest, time_ms: transfer_ms },
            Part { limit: Limit::Exec, time_ms: exec_ms },
            Part { limit: Limit::Slice, time_ms: slice_ms },
        ]),
    }
}
