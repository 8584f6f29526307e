//! Translates options of Grid Engine's qsub(1) in a script to options of `storm submit`.

use super::asked::Asked;
use super::pbs::time;

/// Options without a value.
const BARE: &[&str] = &["-cwd", "-V", "-h", "-notify", "-clear", "-terse"];

/// The options in these lines, each line without its `#$`.
pub(super) fn asked<'a>(lines: impl IntoIterator<Item = &'a str>) -> Asked {
    let mut at_once = None;
    let mut asked = Asked::read(lines, |asked, word, words| match word.as_str() {
        "-h" => asked.take_bare("-H"),
        // storm does both by default.
        "-cwd" | "-V" => {}
        option if BARE.contains(&option) => asked.leave(option),
        option => match (option, words.next()) {
            ("-pe", Some(environment)) => {
                let slots = words.next().unwrap_or_default();
                let written = format!("-pe {environment} {slots}");
                asked.take_value("-n", slots, &written);
            }
            ("-tc", Some(limit)) => at_once = Some(limit),
            (option, Some(value)) => with_value(asked, option, &value),
            (option, None) => asked.leave(option),
        },
    });
    if let Some(limit) = at_once {
        let written = format!("-tc {limit}");
        match asked.value_of("-a").map(|indices| format!("{indices}%{limit}")) {
            Some(array) => asked.take_value("-a", array, &written),
            None => asked.leave(&written),
        }
    }
    asked
}

fn with_value(asked: &mut Asked, option: &str, value: &str) {
    let written = format!("{option} {value}");
    match option {
        "-N" => asked.take_value("-J", value, &written),
        "-q" => asked.take_value("-p", value, &written),
        "-A" | "-P" => asked.take_value("-A", value, &written),
        "-o" | "-e" => {
            asked.take_value(option, value.strip_prefix(':').unwrap_or(value), &written);
        }
        "-t" => asked.take_value("-a", value, &written),
        "-wd" => asked.take_value("-D", value, &written),
        "-v" => asked.take_value("--export", format!("ALL,{value}"), &written),
        "-r" if matches!(value, "y" | "yes") => asked.take_bare("--requeue"),
        "-r" if matches!(value, "n" | "no") => {}
        "-hold_jid" => {
            asked.take_value("-d", format!("afterany:{}", value.replace(',', ":")), &written);
        }
        "-hold_jid_ad" => asked.take_value("-d", format!("aftercorr:{value}"), &written),
        "-l" => {
            for item in value.split(',') {
                let written = format!("-l {item}");
                match item.split_once('=') {
                    Some(("h_rt", limit)) => asked.take_value("-t", time(limit), &written),
                    // In Grid Engine the value counts for each slot.
                    Some(("h_vmem", bytes)) => asked.take_value("--mem-per-cpu", bytes, &written),
                    Some(("exclusive" | "excl", "true" | "1")) => asked.take_bare("--exclusive"),
                    _ => asked.leave(&written),
                }
            }
        }
        _ => asked.leave(&written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_options_become_ours() {
        let asked = asked([
            "-N wave -cwd -V",
            "-pe mpi 64 -l h_rt=3600,h_vmem=2G,gpu=1",
            "-tc 4 -t 1-10:2 -hold_jid 7,8",
            "-j y -q all.q -S /bin/bash",
        ]);
        assert_eq!(
            asked.options().join(" "),
            "-J wave -n 64 -t 3600s --mem-per-cpu 2G -d afterany:7:8 -p all.q -a 1-10:2%4"
        );
        assert_eq!(asked.left.join(", "), "-l gpu=1, -j y, -S /bin/bash");
    }

    #[test]
    fn options_without_an_equivalent_are_named() {
        let asked = asked(["-pe mpi 4-8 -tc 2 -hold_jid first", "-pe"]);
        assert_eq!(asked.options(), Vec::<String>::new());
        assert_eq!(asked.left.join(", "), "-pe mpi 4-8, -hold_jid first, -pe, -tc 2");
    }
}
