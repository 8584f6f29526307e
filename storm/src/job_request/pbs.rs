//! Translates options of qsub(1B) of PBS and Torque in a script to options of `storm submit`.

use super::asked::Asked;

/// Options without a value.
const BARE: &[&str] = &["-h", "-V", "-I", "-X", "-x", "-z", "-f"];

/// The options in these lines, each line without its `#PBS`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    Asked::read(lines, |asked, word, words| {
        if BARE.contains(&word.as_str()) {
            return bare(asked, &word);
        }
        // The value may be attached to the letter, as in -lnodes=2.
        let (option, value) = match word.char_indices().nth(2) {
            Some((end, _)) if word.starts_with('-') => {
                (word[..end].to_owned(), Some(word[end..].to_owned()))
            }
            _ => (word, words.next()),
        };
        match value {
            Some(value) => with_value(asked, &option, &value),
            None => asked.leave(&option),
        }
    })
}

fn bare(asked: &mut Asked, word: &str) {
    match word {
        "-h" => asked.take_bare("-H"),
        // storm passes the whole environment by default.
        "-V" => {}
        _ => asked.leave(word),
    }
}

fn with_value(asked: &mut Asked, option: &str, value: &str) {
    let written = format!("{option} {value}");
    match option {
        "-l" => resources(asked, value),
        "-N" => asked.take_value("-J", value, &written),
        "-q" => asked.take_value("-p", value, &written),
        "-A" | "-P" => asked.take_value("-A", value, &written),
        "-o" | "-e" => asked.take_value(option, path(value), &written),
        "-J" | "-t" => asked.take_value("-a", value, &written),
        "-d" | "-w" => asked.take_value("-D", value, &written),
        "-v" => asked.take_value("--export", format!("ALL,{value}"), &written),
        "-r" if value == "y" => asked.take_bare("--requeue"),
        "-r" if value == "n" => {}
        "-W" => match value.strip_prefix("depend=") {
            Some(dependency) => asked.take_value("-d", dependency, &written),
            None => asked.leave(&written),
        },
        _ => asked.leave(&written),
    }
}

/// PBS names files as `HOST:PATH`.
fn path(value: &str) -> &str {
    value.split_once(':').map_or(value, |(_, path)| path)
}

fn resources(asked: &mut Asked, list: &str) {
    for item in list.split(',') {
        let written = format!("-l {item}");
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        match name {
            "walltime" => asked.take_value("-t", time(value), &written),
            "procs" => asked.take_value("-n", value, &written),
            "ncpus" => asked.take_value("-c", value, &written),
            // Memory of a process, which has a single CPU unless `ncpus` is there.
            "pmem" => asked.take_value("--mem-per-cpu", memory(value), &written),
            "nodes" | "select" => chunk(asked, name, value),
            _ => asked.leave(&written),
        }
    }
}

/// Takes a number of nodes and the needs of each: `nodes=2:ppn=4`,
/// `select=2:ncpus=8:mpiprocs=4:mem=8gb`.
fn chunk(asked: &mut Asked, name: &str, value: &str) {
    let written = format!("-l {name}={value}");
    if value.contains('+') {
        return asked.leave(&written);
    }
    let mut parts = value.split(':');
    asked.take_value("-N", parts.next().unwrap_or_default(), &written);
    let (mut cpus, mut procs) = (None, None);
    for part in parts {
        let written = format!("-l {name}=...:{part}");
        match part.split_once('=') {
            Some(("ppn" | "mpiprocs", count)) => {
                procs = count.parse::<u32>().ok();
                asked.take_value("--ntasks-per-node", count, &written);
            }
            Some(("ncpus", count)) => cpus = count.parse::<u32>().ok(),
            Some(("mem", bytes)) => asked.take_value("--mem", memory(bytes), &written),
            _ => asked.leave(&written),
        }
    }
    // The processes of a chunk share its processors. The default is a single process.
    if let Some(each) = cpus.map(|cpus| cpus / procs.unwrap_or(1).max(1)).filter(|each| *each > 1) {
        asked.take_value("-c", each.to_string(), &written);
    }
}

/// A time; a bare number is seconds.
pub(super) fn time(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(seconds) => format!("{seconds}s"),
        Err(_) => value.to_owned(),
    }
}

/// Memory: `8gb` is 8 GiB, as 8G is here.
fn memory(value: &str) -> String {
    value.to_ascii_uppercase().trim_end_matches('B').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_options_become_ours() {
        let asked = asked([
            "-N wave -q batch -A chem",
            "-l nodes=2:ppn=4,walltime=01:30:00",
            "-lwalltime=90 -o head:out.txt -V",
            "-W depend=afterok:7 -J 0-9 -h -r y -v A=1",
        ]);
        assert_eq!(
            asked.options().join(" "),
            "-J wave -p batch -A chem -N 2 --ntasks-per-node 4 -t 90s -o out.txt -d afterok:7 \
             -a 0-9 -H --requeue --export ALL,A=1"
        );
        assert_eq!(asked.left, Vec::<String>::new());
    }

    #[test]
    fn chunks_have_processes_processors_and_memory() {
        let select = asked(["-l select=2:ncpus=8:mpiprocs=4:mem=8gb"]);
        assert_eq!(select.options().join(" "), "-N 2 --ntasks-per-node 4 --mem 8G -c 2");
        assert_eq!(asked(["-l procs=4,pmem=2gb"]).options().join(" "), "-n 4 --mem-per-cpu 2G");
        assert_eq!(asked(["-l select=1:ncpus=8"]).options().join(" "), "-N 1 -c 8");
        let left =
            asked(["-l select=1:ncpus=8+2:ncpus=1 -l nodes=1:ppn=2:gpus=1 -m abe -j oe", "-l"]);
        assert_eq!(
            left.left.join(", "),
            "-l select=1:ncpus=8+2:ncpus=1, -l nodes=...:gpus=1, -m abe, -j oe, -l"
        );
    }
}
