//! Placing files: content, owner, mode, and nothing left behind when it fails.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::support::{Mechanism, NOBODY, Node};
use storm_pl::{Credentials, Event, PlaceFailure, PlaceSpec, PlaceStep};

fn user() -> Credentials {
    match Credentials::own() {
        Credentials { uid: 0, .. } => Credentials { uid: NOBODY, gid: NOBODY, groups: Vec::new() },
        own => own,
    }
}

fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

async fn place(node: &mut Node, spec: PlaceSpec) -> Result<(), PlaceFailure> {
    let wanted = node.handle.place(spec).unwrap();
    match node.next().await {
        Event::Placed { id, result } if id == wanted => result,
        other => panic!("{other:?}"),
    }
}

fn spec(source: &Path, destination: &Path) -> PlaceSpec {
    PlaceSpec {
        source: source.into(),
        destination: destination.into(),
        mode: 0o751,
        replace: false,
        credentials: user(),
    }
}

#[tokio::test]
async fn a_file_arrives_whole_with_owner_and_mode() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    // The source is readable only by the daemon.
    let source = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(&source, &content).unwrap();
    let dir = open_directory();
    let destination = dir.path().join("app");
    place(&mut node, spec(source.path(), &destination)).await.unwrap();
    assert!(fs::read(&destination).unwrap() == content);
    let metadata = fs::metadata(&destination).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o751, user().uid));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);

    let again = place(&mut node, spec(source.path(), &destination)).await.unwrap_err();
    assert_eq!((again.step, again.errno.0), (PlaceStep::Rename, libc::EEXIST));
    fs::write(&source, "new").unwrap();
    let replace = PlaceSpec { replace: true, ..spec(source.path(), &destination) };
    place(&mut node, replace).await.unwrap();
    assert_eq!(fs::read_to_string(&destination).unwrap(), "new");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    node.shut_down().await;
}

#[tokio::test]
async fn a_placement_that_fails_names_the_step() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let source = tempfile::NamedTempFile::new().unwrap();
    let dir = open_directory();
    let inside = dir.path().join("app");
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let cases = [
        (spec(Path::new("/no/such/file"), &inside), PlaceStep::Source, libc::ENOENT),
        (spec(source.path(), Path::new("relative")), PlaceStep::Destination, libc::EINVAL),
        (spec(source.path(), Path::new("/")), PlaceStep::Destination, libc::EINVAL),
        (spec(source.path(), &closed.path().join("app")), PlaceStep::Create, libc::EACCES),
        (spec(source.path(), &dir.path().join("no/app")), PlaceStep::Create, libc::ENOENT),
    ];
    for (spec, step, errno) in cases {
        let failure = place(&mut node, spec).await.unwrap_err();
        assert_eq!((failure.step, failure.errno.0), (step, errno));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    node.shut_down().await;
}
