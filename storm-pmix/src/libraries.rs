//! Finds the MPI that a program loads through its libraries, by the rules of the loader (ld.so(8)).
//! Packaged programs often need a library of their package, and only that library needs an MPI.

use crate::needs::{Mpi, Needs};
use std::collections::{HashMap, HashSet, VecDeque};
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cache of ldconfig(8) for the directories of the system.
const CACHE: &str = "/etc/ld.so.cache";
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER_BYTES: usize = 48;
const CACHE_ENTRY_BYTES: usize = 24;
/// Offsets in an entry: of the offset of the name, and of the offset of the path.
const CACHE_NAME: usize = 4;
const CACHE_PATH: usize = 8;
/// Directories that the loader always searches.
const DIRECTORIES: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// The most libraries that are read, more than any known program has. It bounds the work for a
/// hostile list.
const LIBRARIES_MAX: usize = 1024;
/// Libraries that almost every program needs and that need no others.
const OF_THE_SYSTEM: [&[u8]; 3] = [b"libc.so.", b"libm.so.", b"ld-linux"];

/// The places to search for libraries.
pub(crate) struct Search {
    /// The value of `LD_LIBRARY_PATH`.
    library_path: Vec<u8>,
    cache: HashMap<Vec<u8>, Vec<PathBuf>>,
}

/// A program or library that needs libraries.
struct Object {
    needs: Needs,
    /// The object's directory, for `$ORIGIN`.
    origin: PathBuf,
    /// The search paths of the objects that led to this object, the nearest first, with the
    /// directories that the paths are relative to.
    inherited: Option<Arc<Inherited>>,
}

struct Inherited {
    rpath: Vec<u8>,
    origin: PathBuf,
    before: Option<Arc<Inherited>>,
}

impl Search {
    /// The search as the loader does it for this process.
    pub(crate) fn here() -> Search {
        let library_path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default().as_bytes().to_vec();
        let cache = std::fs::read(CACHE).ok().and_then(|cache| cached(&cache)).unwrap_or_default();
        Search { library_path, cache }
    }

    /// Whether the first MPI that the loader finds is Open MPI. The loader first reads all
    /// libraries of the program, then all of their libraries.
    pub(crate) fn finds_open_mpi(&self, program: &Needs, path: &Path) -> bool {
        let mut seen = HashSet::new();
        let mut objects = VecDeque::from([object(program.clone(), path, None)]);
        while let Some(object) = objects.pop_front() {
            if let Some(mpi) = object.needs.mpi() {
                return mpi == Mpi::Open;
            }
            let below = below(&object);
            for library in &object.needs.libraries {
                let known = OF_THE_SYSTEM.iter().any(|name| library.starts_with(name));
                if known || seen.len() == LIBRARIES_MAX || !seen.insert(library.clone()) {
                    continue;
                }
                if let Some((path, needs)) = self.find(library, &object) {
                    objects.push_back(self::object(needs, &path, below.clone()));
                }
            }
        }
        false
    }

    fn find(&self, library: &[u8], by: &Object) -> Option<(PathBuf, Needs)> {
        let fits = |path: PathBuf| {
            let needs = path.is_file().then(|| File::open(&path).ok()).flatten();
            let needs = needs.and_then(|file| Needs::of(&file))?;
            (needs.kind == by.needs.kind).then_some((path, needs))
        };
        if library.contains(&b'/') {
            return fits(at_origin(library, &by.origin));
        }
        let name = Path::new(OsStr::from_bytes(library));
        let in_any = |list: &[u8], origin: &Path| {
            let directories = list.split(|byte| matches!(byte, b':' | b';'));
            let mut directories = directories.filter(|directory| !directory.is_empty());
            directories.find_map(|directory| fits(at_origin(directory, origin).join(name)))
        };
        let mut found = None;
        if by.needs.runpath.is_empty() {
            found = in_any(&by.needs.rpath, &by.origin);
            let mut next = by.inherited.as_deref();
            while let (None, Some(inherited)) = (&found, next) {
                found = in_any(&inherited.rpath, &inherited.origin);
                next = inherited.before.as_deref();
            }
        }
        found
            .or_else(|| in_any(&self.library_path, &by.origin))
            .or_else(|| in_any(&by.needs.runpath, &by.origin))
            .or_else(|| self.cache.get(library)?.iter().find_map(|path| fits(path.clone())))
            .or_else(|| {
                DIRECTORIES.iter().find_map(|directory| fits(Path::new(directory).join(name)))
            })
    }
}

fn object(needs: Needs, path: &Path, inherited: Option<Arc<Inherited>>) -> Object {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = real.parent().unwrap_or(Path::new("/")).to_owned();
    Object { needs, origin, inherited }
}

/// The paths that the libraries of an object inherit.
fn below(object: &Object) -> Option<Arc<Inherited>> {
    if object.needs.rpath.is_empty() || !object.needs.runpath.is_empty() {
        return object.inherited.clone();
    }
    Some(Arc::new(Inherited {
        rpath: object.needs.rpath.clone(),
        origin: object.origin.clone(),
        before: object.inherited.clone(),
    }))
}

/// A path that may begin with `$ORIGIN`.
fn at_origin(path: &[u8], origin: &Path) -> PathBuf {
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|word| path.strip_prefix(*word));
    match rest {
        Some(rest) => {
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            origin.join(OsStr::from_bytes(rest))
        }
        None => PathBuf::from(OsStr::from_bytes(path)),
    }
}

/// The cache's libraries with their paths. `None` if its format is not that of glibc 2.1 and later.
fn cached(cache: &[u8]) -> Option<HashMap<Vec<u8>, Vec<PathBuf>>> {
    // The older format may come first. Offsets of texts count from here.
    let begin = cache.windows(CACHE_MAGIC.len()).position(|part| part == CACHE_MAGIC)?;
    let cache = &cache[begin..];
    let number = |at: usize| {
        let bytes = cache.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let text = |at: usize| cache.get(at..)?.split(|byte| *byte == 0).next();
    let mut libraries = HashMap::<_, Vec<_>>::new();
    for entry in 0..number(CACHE_MAGIC.len())? {
        let at = entry.checked_mul(CACHE_ENTRY_BYTES)?.checked_add(CACHE_HEADER_BYTES)?;
        let name = text(number(at.checked_add(CACHE_NAME)?)?)?;
        let path = text(number(at.checked_add(CACHE_PATH)?)?)?;
        libraries.entry(name.to_vec()).or_default().push(OsStr::from_bytes(path).into());
    }
    Some(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Linkage;
    use std::process::Command;

    /// Links a library, or with `-pie` a program, with these libraries.
    fn link(here: &Path, name: &str, arguments: &[&str]) -> PathBuf {
        let source = here.join("empty.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let file = here.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut command = Command::new("cc");
        command.current_dir(here).arg("-o").arg(&file).args(["-Wl,--no-as-needed", "empty.c"]);
        command.args(["-Wl,--allow-shlib-undefined", "-L."]).args(arguments);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        file
    }

    fn nowhere() -> Search {
        Search { library_path: Vec::new(), cache: HashMap::new() }
    }

    fn open_mpi(search: &Search, program: &Path) -> bool {
        let needs = Needs::of(&File::open(program).unwrap()).unwrap();
        search.finds_open_mpi(&needs, program)
    }

    #[test]
    fn an_mpi_that_only_a_library_needs_is_found_wherever_the_loader_looks() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let shared = ["-shared", "-fPIC"];
        let library = |name: &str, more: &[&str]| link(here, name, &[&shared[..], more].concat());
        library("libopen.so", &["-Wl,-soname,libmpi.so.40"]);
        library("libother.so", &["-Wl,-soname,libmpich.so.12"]);
        library("libphysics.so", &["-lopen"]);
        library("libchemistry.so", &["-lother"]);
        library("libwaves.so", &["-lphysics"]);
        let there = |more: &[&str]| link(here, "bin/program", more);
        let beside = there(&["-lwaves", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/.."]);
        assert!(open_mpi(&nowhere(), &beside), "a path that counts for libraries' libraries");
        assert!(Linkage::of(&File::open(&beside).unwrap(), &beside).open_mpi);
        let own_only = there(&["-lwaves", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/.."]);
        assert!(!open_mpi(&nowhere(), &own_only), "the loader finds none either");
        let enough = there(&["-lphysics", "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/.."]);
        assert!(open_mpi(&nowhere(), &enough));
        let plain = there(&["-lwaves"]);
        assert!(!open_mpi(&nowhere(), &plain));
        let library_path = [b"/nowhere::", here.as_os_str().as_bytes()].concat();
        assert!(open_mpi(&Search { library_path: library_path.clone(), ..nowhere() }, &plain));
        let known = ["libwaves.so", "libphysics.so"];
        let known =
            known.map(|name| (name.as_bytes().to_vec(), vec!["/dev/null".into(), here.join(name)]));
        assert!(open_mpi(&Search { cache: known.into(), ..nowhere() }, &plain));
        let library_path = Search { library_path, ..nowhere() };
        let nearest = there(&["-lchemistry", "-lwaves"]);
        assert!(!open_mpi(&library_path, &nearest), "MPICH is met first");
        let nearest = there(&["-lphysics", "-lchemistry"]);
        assert!(open_mpi(&library_path, &nearest), "so is Open MPI");
    }

    #[test]
    fn a_cache_of_libraries_is_read_and_a_damaged_one_is_none() {
        let entries: [(u32, u32); 2] = [(96, 101), (96, 109)];
        let mut cache = CACHE_MAGIC.to_vec();
        cache.extend(2_u32.to_ne_bytes());
        cache.resize(CACHE_HEADER_BYTES, 0);
        for (name, path) in entries {
            cache.extend([3_u32, name, path, 0, 0, 0].map(u32::to_ne_bytes).concat());
        }
        cache.extend(b"l.so\0/a/l.so\0/b/l.so\0".map(|byte| byte));
        let found = cached(&cache).unwrap();
        let paths: Vec<PathBuf> = vec!["/a/l.so".into(), "/b/l.so".into()];
        assert_eq!(found[&b"l.so"[..]], paths);
        let behind = [&b"ld.so-1.7.0\0\0\0\0\0"[..], &cache].concat();
        assert_eq!(cached(&behind), Some(found));
        assert_eq!(cached(&cache[..CACHE_HEADER_BYTES + 30]), None);
        assert_eq!(cached(b"ld.so-1.7.0\0"), None);
        let mut many = cache.clone();
        many[CACHE_MAGIC.len()..][..4].fill(0xff);
        assert_eq!(cached(&many), None);
    }
}
