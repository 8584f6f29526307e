//! The variables by which a job knows its own cluster, so that `storm` in the job addresses it.
//!
//! A socket can be reached on the manager's host only. On another host the same path may be the
//! socket of another cluster, so the variables also name the manager's host.

use crate::cli::ExportArgument;
use crate::manager::Manager;
use crate::variables::{KEY_VARIABLE, MANAGER_VARIABLE, SOCKET_VARIABLE};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use storm_nm::{CLUSTER_GIVEN_VARIABLE, CLUSTER_VARIABLES};
use storm_rm::{Environment, OsBytes};

/// The host of `STORM_SOCKET`: its boot id, its name and the socket, separated by spaces.
const HOST_VARIABLE: &str = "STORM_SOCKET_HOST";

/// The environment of a job for this manager, with a mark for nodes that have a nearer way to it.
/// Variables that the user exports by name stay, without the mark.
pub(crate) fn with_own_cluster(
    environment: &Environment,
    export: Option<&ExportArgument>,
    manager: &Manager,
) -> Environment {
    let is_chosen = |name: &&str| export.is_some_and(|export| export.names(OsStr::new(name)));
    if CLUSTER_VARIABLES.iter().any(is_chosen) {
        let is_mark = |name: &OsBytes| *name.as_os_str() == *CLUSTER_GIVEN_VARIABLE;
        return environment.iter().filter(|(name, _)| !is_mark(name)).cloned().collect();
    }
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let own: Vec<(&str, OsString)> = match manager {
        Manager::Socket(path) => {
            let path = absolute(path).into_os_string();
            let host = boot_id().map(|boot| {
                let name = nix::unistd::gethostname().unwrap_or_default();
                let mut host = OsString::from(format!("{boot} {} ", name.to_string_lossy()));
                host.push(&path);
                (HOST_VARIABLE, host)
            });
            [(SOCKET_VARIABLE, path)].into_iter().chain(host).collect()
        }
        Manager::Remote { address, key_file, .. } => vec![
            (MANAGER_VARIABLE, address.into()),
            (KEY_VARIABLE, absolute(key_file).into_os_string()),
        ],
    };
    let mark = (CLUSTER_GIVEN_VARIABLE, OsString::from("1"));
    let known = CLUSTER_VARIABLES.iter().chain([&CLUSTER_GIVEN_VARIABLE]);
    let named = |name: &OsBytes| known.clone().any(|known| *name.as_os_str() == **known);
    let others = environment.iter().filter(|(name, _)| !named(name)).cloned();
    others
        .chain(own.into_iter().chain([mark]).map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// Whether the user has set `STORM_SOCKET` to another socket than the one that came with the job.
pub(crate) fn names_another_cluster() -> bool {
    let variable = |name| std::env::var_os(name);
    let (Some(told), Some(socket)) = (variable(HOST_VARIABLE), variable(SOCKET_VARIABLE)) else {
        return false;
    };
    let given = told.as_bytes().splitn(3, |byte| *byte == b' ').nth(2);
    given.is_some_and(|given| given != socket.as_bytes())
}

/// The name of the host that `STORM_SOCKET` belongs to, if a job's environment names one and it is
/// not this host.
pub(crate) fn other_host_of(socket: &OsStr) -> Option<String> {
    other_host(&std::env::var_os(HOST_VARIABLE)?, socket, &boot_id()?)
}

fn other_host(told: &OsStr, socket: &OsStr, boot: &str) -> Option<String> {
    let mut words = told.as_bytes().splitn(3, |byte| *byte == b' ');
    let (its_boot, name, its_socket) = (words.next()?, words.next()?, words.next()?);
    // False if the user has set another socket since then.
    let is_of_it = its_socket == socket.as_bytes();
    (is_of_it && its_boot != boot.as_bytes()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// An id that no other host has (random(4)), nor this host after its next boot.
fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(manager: &Manager, export: Option<&str>) -> Vec<(String, String)> {
        let text = |bytes: &OsBytes| bytes.as_os_str().to_string_lossy().into_owned();
        let mine = [
            ("HOME", "/h"),
            ("STORM_SOCKET", "/other"),
            ("STORM_MANAGER", "other:1"),
            ("STORM_CLUSTER_GIVEN", "1"),
        ];
        let mine: Environment =
            mine.map(|(name, to)| (name.into(), to.into())).into_iter().collect();
        let export = export.map(|text| ExportArgument::parse(text.into()).expect("an export"));
        let told = with_own_cluster(&mine, export.as_ref(), manager);
        told.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn a_job_is_told_of_its_own_cluster_and_no_other() {
        let told_of_socket = variables(&Manager::at(Path::new("/s")), Some("ALL"));
        let [home, socket, host, mark] = &told_of_socket[..] else { panic!("{told_of_socket:?}") };
        assert_eq!((mark.0.as_str(), mark.1.as_str()), ("STORM_CLUSTER_GIVEN", "1"));
        assert_eq!((home.0.as_str(), socket.1.as_str()), ("HOME", "/s"));
        assert!(host.0 == "STORM_SOCKET_HOST" && host.1.ends_with(" /s"), "{host:?}");
        let chosen = variables(&Manager::at(Path::new("/s")), Some("ALL,STORM_SOCKET=/mine"));
        assert_eq!(chosen.len(), 3, "the user's choice stays: {chosen:?}");
        assert!(chosen.contains(&("STORM_MANAGER".to_owned(), "other:1".to_owned())));
    }

    #[test]
    fn a_socket_is_of_one_host() {
        let host = |told: &str, socket: &str| other_host(told.as_ref(), socket.as_ref(), "b1");
        assert_eq!(host("b1 head /a b", "/a b"), None, "it is this one");
        assert_eq!(host("b2 head /a b", "/a b").as_deref(), Some("head"));
        assert_eq!(host("b2 head /a b", "/mine"), None, "the user has set it");
        assert_eq!(host("b2", "/mine"), None);
    }
}
