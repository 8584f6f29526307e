//! `reservation`: reserves nodes for some users' jobs for some time.

use super::misunderstood::misunderstood;
use super::{connect, note, print};
use crate::cli::{ClusterOptions, ReservationCommand, ReserveOptions, Start};
use crate::failure::Failure;
use crate::output::Output;
use nix::unistd::User;
use storm_mm::api::{ManagerRequest, Reply, ReservationRequest, ReservationView};

pub(super) async fn run(command: ReservationCommand, output: &dyn Output) -> Result<u8, Failure> {
    match command {
        ReservationCommand::Create(options) => {
            tell_unknown(&options, output);
            let request = ManagerRequest::Reserve(request(&options));
            let made = ask(&options.cluster, request).await?;
            made.iter().try_for_each(|made| print(&output.reservation(made)))?;
        }
        ReservationCommand::List { cluster } => {
            let all = ask(&cluster, ManagerRequest::Reservations).await?;
            print(&output.reservations(&all))?;
        }
        ReservationCommand::Show { name, cluster } => {
            let all = ask(&cluster, ManagerRequest::Reservations).await?;
            let found = all.iter().find(|reservation| reservation.name == name);
            print(&output.reservation(found.ok_or_else(|| no_such_reservation(&name, &all))?))?;
        }
        ReservationCommand::Delete { name, cluster } => {
            let request = ManagerRequest::Unreserve { name: name.clone() };
            match connect(&cluster).await?.call(request).await? {
                Reply::Ok => print(&output.unreserved(&name))?,
                other => return Err(misunderstood(&other)),
            }
        }
    }
    Ok(0)
}

/// Notes users who are unknown here; the manager's host may know them.
fn tell_unknown(options: &ReserveOptions, output: &dyn Output) {
    let is_unknown =
        |user: &&String| user.parse::<u32>().is_err() && matches!(User::from_name(user), Ok(None));
    for user in options.users.iter().filter(is_unknown) {
        note(&output.warning(&format!(
            "--users: this host has no user {user}; until that user exists, nobody can use the \
             nodes by that name"
        )));
    }
}

fn request(options: &ReserveOptions) -> ReservationRequest {
    ReservationRequest {
        name: options.name.clone(),
        start: options.start.and_then(|start| match start {
            Start::Now => None,
            Start::At(at) => Some(at),
        }),
        duration_s: options.duration.as_secs(),
        nodes: options.nodes.clone(),
        node_count: options.node_count,
        pes: options.pes,
        users: options.users.clone(),
        partition: options.partition.clone(),
    }
}

async fn ask(
    cluster: &ClusterOptions,
    request: ManagerRequest,
) -> Result<Vec<ReservationView>, Failure> {
    match connect(cluster).await?.call(request).await? {
        Reply::Reservations { reservations } => Ok(reservations),
        other => Err(misunderstood(&other)),
    }
}

fn no_such_reservation(name: &str, all: &[ReservationView]) -> Failure {
    let names: Vec<&str> = all.iter().map(|reservation| reservation.name.as_str()).collect();
    let hint = match names.is_empty() {
        true => "there are none".to_owned(),
        false => format!("there are: {}", names.join(", ")),
    };
    Failure::new("no-such-reservation", format!("there is no reservation {name:?}")).hint(hint)
}
