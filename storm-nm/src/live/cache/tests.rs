//! The content that a node's cache keeps, evicts and refuses.

use super::*;
use bytes::Bytes;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use storm_rm::file_transfer::ChunkSink;
use storm_rm::{Destination, OsBytes};

const OWNER: Owner = Owner { uid: 7, gid: 7 };

fn file(content: &[u8]) -> FileSpec {
    FileSpec {
        hash: ContentHash::of(content),
        size_bytes: content.len() as u64,
        mode: 0o755,
        name: OsBytes::from("f"),
        destination: Destination::JobDirectory,
    }
}

async fn add(cache: &Cache, content: &'static [u8]) -> io::Result<()> {
    let mut sink = cache.create(OWNER, &file(content), None).await.map_err(CacheError::into_io)?;
    for chunk in content.chunks(3) {
        sink.write(vec![Bytes::from_static(chunk)]).await?;
    }
    sink.finish().await
}

#[tokio::test]
async fn content_is_found_again_by_the_next_daemon_and_remains_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    let cache = Cache::open(root.clone(), Some(1000)).unwrap();
    assert!(!cache.has(OWNER, &file(b"program")).await);
    add(&cache, b"program").await.unwrap();
    let unfinished = cache.create(OWNER, &file(b"unfinished"), None).await.unwrap();
    std::mem::forget(unfinished);
    let next = Cache::open(root.clone(), Some(1000)).unwrap();
    assert!(next.has(OWNER, &file(b"program")).await);
    assert_eq!(fs::read_dir(root.join("7")).unwrap().count(), 1);
    assert!(!next.has(Owner { uid: 8, gid: 8 }, &file(b"program")).await, "another's cache");
}

#[tokio::test]
async fn content_of_an_earlier_boot_is_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    let cache = Cache::open(root.clone(), Some(1000)).unwrap();
    add(&cache, b"program").await.unwrap();
    fs::write(root.join("boot"), "another boot").unwrap();
    let next = Cache::open(root, Some(1000)).unwrap();
    assert!(!next.has(OWNER, &file(b"program")).await);
}

#[tokio::test]
async fn damaged_and_short_content_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path().join("cache"), Some(1000)).unwrap();
    let sum = ContentSum::of(b"program");
    for (came, sum) in
        [b"progrbm", b"progrbm", &b"prog"[..]].into_iter().zip([None, Some(sum), None])
    {
        let mut sink = cache.create(OWNER, &file(b"program"), sum).await.unwrap();
        sink.write(vec![Bytes::copy_from_slice(came)]).await.unwrap();
        assert!(sink.finish().await.is_err());
        drop(sink);
        assert_eq!(fs::read_dir(dir.path().join("cache/7")).unwrap().count(), 0);
    }
    assert_eq!(cache.used_bytes(), 0);
}

#[tokio::test]
async fn room_is_made_only_from_what_is_not_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    add(&Cache::open(root.clone(), Some(12)).unwrap(), b"old data").await.unwrap();
    let cache = Cache::open(root, Some(12)).unwrap();
    add(&cache, b"new data").await.unwrap();
    assert!(!cache.has(OWNER, &file(b"old data")).await, "evicted");
    let full = add(&cache, b"more data").await.unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
    assert!(cache.has(OWNER, &file(b"new data")).await, "just used");
}

#[tokio::test]
async fn linked_content_makes_room_and_awaited_content_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path().join("cache"), Some(12)).unwrap();
    add(&cache, b"program").await.unwrap();
    assert!(cache.has(OWNER, &file(b"program")).await, "for a second job");
    let hash = ContentHash::of(b"program");
    for _ in 0..2 {
        let full = add(&cache, b"another").await.unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
        cache.linked(OWNER, hash);
    }
    add(&cache, b"another").await.unwrap();
    assert!(!cache.has(OWNER, &file(b"program")).await, "evicted at once");
}

#[tokio::test]
async fn a_file_system_with_little_room_bounds_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    let open = |available| Cache::open_on(root.clone(), None, available).unwrap();
    assert_eq!(open(|_| Ok(100)).capacity_bytes(), 50);
    assert_eq!(open(|_| Ok(1 << 40)).capacity_bytes(), DEFAULT_BYTES);
    assert!(available(dir.path()).unwrap() > 0);
    add(&open(|_| Ok(100)), b"old data").await.unwrap();
    assert_eq!(open(|_| Ok(100)).capacity_bytes(), 54, "what it holds is its own");
    // Others have filled the file system since: the cache gives what it can, or returns the reason
    // why not.
    let cache = Cache::open_on(root.clone(), Some(1000), of_twelve).unwrap();
    let refused = add(&cache, b"much more than that").await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    assert!(refused.to_string().contains("(4 are free)"), "{refused}");
    add(&cache, b"new data").await.unwrap();
    assert!(!cache.has(OWNER, &file(b"old data")).await, "evicted");
}

/// The free space of a file system of 12 bytes, which holds the cache only.
fn of_twelve(root: &Path) -> io::Result<u64> {
    let files = fs::read_dir(root.join("7"))?;
    let sizes = files.map(|file| Ok(file?.metadata()?.len())).sum::<io::Result<u64>>()?;
    Ok(12 - sizes)
}

/// A regression: two files arrived at once and both were admitted, with room for one. One file
/// failed half-way.
#[tokio::test]
async fn reserved_room_is_not_free() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    add(&Cache::open(root.clone(), Some(1000)).unwrap(), b"").await.unwrap();
    let cache = Cache::open_on(root, Some(1000), of_twelve).unwrap();
    let mut first = cache.create(OWNER, &file(b"program"), None).await.unwrap();
    for (came, free) in [(&b""[..], 5), (b"prog", 5), (b"ram", 5)] {
        first.write(vec![Bytes::from_static(came)]).await.unwrap();
        let refused = cache.create(OWNER, &file(b"another"), None).await.unwrap_err();
        let told = format!("({free} are free)");
        assert!(refused.to_string().contains(&told), "after {came:?}: {refused}");
    }
    drop(first);
    add(&cache, b"another").await.expect("nobody else is about to write");
}

#[tokio::test]
async fn room_that_running_jobs_have_by_their_links_is_not_counted_as_made() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    add(&Cache::open(root.clone(), Some(1000)).unwrap(), b"old data").await.unwrap();
    let cache = Cache::open_on(root, Some(1000), |_| Ok(4)).unwrap();
    let refused = add(&cache, b"new data").await.unwrap_err();
    assert!(refused.to_string().contains("(4 are free)"), "{refused}");
    assert_eq!(cache.used_bytes(), 0);
}

/// A regression: the cache had no room for any file until the daemon was started again.
#[tokio::test]
async fn a_cache_of_a_file_system_that_was_full_at_the_start_grows() {
    static FREE: AtomicU64 = AtomicU64::new(0);
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open_on(dir.path().join("cache"), None, |_| Ok(FREE.load(Relaxed))).unwrap();
    let refused = add(&cache, b"program").await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
    FREE.store(100, Relaxed);
    add(&cache, b"program").await.unwrap();
    add(&cache, &[b'x'; 60]).await.expect("there is room, though not to keep all");
    FREE.store(0, Relaxed);
    assert_eq!(cache.capacity_bytes(), 53, "it never has less");
}

#[test]
fn a_file_system_without_a_limit_is_not_full() {
    // `/proc` has no blocks either.
    assert_eq!(available(Path::new("/proc")).unwrap(), u64::MAX);
}

#[tokio::test]
async fn content_that_cannot_fit_evicts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    add(&Cache::open(root.clone(), Some(12)).unwrap(), b"old").await.unwrap();
    let cache = Cache::open(root, Some(12)).unwrap();
    add(&cache, b"in use").await.unwrap();
    for (content, kind) in [
        (&b"too much now"[..], io::ErrorKind::StorageFull),
        (&b"more than ever fits"[..], io::ErrorKind::FileTooLarge),
    ] {
        let refused = cache.create(OWNER, &file(content), None).await.unwrap_err().into_io();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    assert!(cache.has(OWNER, &file(b"old")).await, "what is on the disk is counted");
}
