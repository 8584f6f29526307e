//! How command lines are understood.

use super::*;
use crate::cli::daemon_options::NodeAddress;
use clap::CommandFactory;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use storm_rm::JobId;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

fn job(line: &str) -> JobOptions {
    match parse(line) {
        Ok(Command::Submit(options) | Command::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_policy_at_the_end_is_ours_unless_kept_apart() {
    let (options, taken) = job("storm submit -n 256 ./sweep3d --sched gang").with_trailing_sched();
    assert!(taken);
    assert_eq!((options.sched.as_deref(), options.program.len()), (Some("gang"), 1));
    for kept in [
        "storm submit ./prog -- --sched gang",
        "storm submit ./prog --sched mine",
        "storm submit --sched fcfs ./prog --sched gang",
        "storm submit ./prog --sched gang more",
    ] {
        let before = job(kept).program;
        let (options, taken) = job(kept).with_trailing_sched();
        assert!(!taken && options.program == before, "{kept}");
    }
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn arguments_after_the_program_belong_to_the_program() {
    let options = job("storm submit -n 256 --sched gang ./sweep3d -n 3 --label --json -- x");
    let program = ["./sweep3d", "-n", "3", "--label", "--json", "--", "x"].map(OsString::from);
    assert_eq!(options.program, program);
    assert_eq!(options.procs, Some(256));
    assert_eq!(options.sched.as_deref(), Some("gang"));
    assert!(!options.label);
}

#[test]
fn values_may_stand_right_behind_short_options() {
    let options = job("storm run -n4 -N2 -t1:30 hostname -n3");
    assert_eq!(options.procs, Some(4));
    assert_eq!(options.program, ["hostname", "-n3"].map(OsString::from));
    let mistake = parse("storm run --ntask 4 hostname").unwrap_err().to_string();
    assert!(mistake.contains("--ntasks"), "{mistake}");
}

#[test]
fn every_scripted_option_is_understood() {
    let options = job(
        "storm run -n 4 -N 2 --sched fcfs --partition batch --nodes 8 --pes 2 --time 1:30 \
         --output o-%j --error e-%j --input all --no-bcast --bcast a.dat --bcast b:/tmp/c \
         --hold --begin now+1hour --dependency afterok:7:8_1,singleton \
         --kill-on-invalid-dep yes --array 0-9:3%2 --name x --requeue --chdir /tmp --export NONE --bind core --quantum 2ms --json ./a.out",
    );
    let nodes = options.on_nodes.map(|nodes| (nodes.least, nodes.most));
    assert_eq!((options.procs, nodes), (Some(4), Some((2, None))));
    assert_eq!((options.embedded.nodes, options.embedded.pes), (Some(8), Some(2)));
    assert_eq!(options.time, Some(Duration::from_secs(90)));
    assert_eq!(options.embedded.quantum, Some(Duration::from_millis(2)));
    assert_eq!(options.input, Some(InputArgument::All));
    assert_eq!(options.bind, Some(BindArgument::Core));
    assert_eq!(options.export, ExportArgument::parse("NONE".into()).ok());
    assert!(options.no_bcast && options.requeue && options.needs.hold);
    assert_eq!(options.needs.kill_on_invalid_dep, Some(YesNo::Yes));
    assert!(options.needs.begin.is_some());
    let array = options.needs.array.expect("an array");
    assert_eq!(array.indices(10), Ok(vec![0, 3, 6, 9]));
    assert_eq!(options.needs.dependency.expect("given").conditions.len(), 3);
    let bcast = |file: &str, destination: Option<&str>| BcastArgument {
        file: PathBuf::from(file),
        destination: destination.map(OsString::from),
    };
    assert_eq!(options.bcast, [bcast("a.dat", None), bcast("b", Some("/tmp/c"))]);
}

#[test]
fn jobs_and_signals_have_names_and_numbers() {
    let Ok(Command::Cancel(options)) = parse("storm cancel 7 8_3 --signal usr1") else {
        panic!("it is right")
    };
    let job = |job, task| JobOrStep { job: JobName { job: JobId(job), task }, step: None };
    assert_eq!(options.jobs, [job(7, None), job(8, Some(3))]);
    assert_eq!(options.signal, Some(nix::libc::SIGUSR1));
    for line in [
        "storm cancel",
        "storm cancel -s TERM",
        "storm cancel 0",
        "storm cancel x",
        "storm cancel 7_",
        "storm cancel +7",
        "storm cancel 1 -s WAT",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn contradictions_are_refused() {
    for line in [
        "storm submit",
        "storm submit -n 0 a",
        "storm submit -t -5 a",
        "storm submit --nodes 4 --socket s a",
        "storm submit --label --output f a",
        "storm submit --wrap x a",
        "storm submit --wrap x --no-bcast",
        "storm wait",
        "storm submit --array 3-1 a",
        "storm submit --begin soon a",
        "storm submit --dependency afterok a",
        "storm submit --kill-on-invalid-dep yes a",
        "storm partition set-quantum main 10",
        "storm hold",
        "storm submit --bcast x:rel a",
        "storm mm",
        "storm mm --config f --local-nodes 2 --runtime-dir d",
        "storm mm --local-nodes 2",
        "storm nm --mm head --name n1",
        "storm queue --state DONE",
        "storm key",
        "storm nm --mm h:1 --name n1 --previous-key f",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn addresses_are_a_host_and_a_port() {
    for (text, right) in [
        ("head:7117", true),
        ("[::1]:7117", true),
        ("10.0.0.1:0", true),
        ("head", false),
        (":7117", false),
        ("head:70000", false),
    ] {
        assert_eq!(text.parse::<NodeAddress>().is_ok(), right, "{text}");
    }
}

#[test]
fn the_help_says_enough_to_work_with() {
    let mut command = Cli::command().term_width(100);
    insta::assert_snapshot!("help", command.render_long_help().to_string());
    for name in [
        "submit",
        "up",
        "wait",
        "cancel",
        "hold",
        "partition",
        "mm",
        "nm",
        "relay",
        "key",
        "replay",
    ] {
        let verb = command.find_subcommand_mut(name).expect("it is a verb");
        insta::assert_snapshot!(format!("help_{name}"), verb.render_help().to_string());
    }
}

#[test]
fn questions_to_the_model_are_understood() {
    let line = "storm model predict --nodes 64 --profile x.toml --bytes 12MB --fan-out 8 \
                --chunk 256KiB --quantum 2ms --pes 4";
    let Ok(Command::Model(options)) = parse(line) else { panic!("it is right") };
    let ModelCommand::Predict(options) = options.command else { panic!("it is a prediction") };
    assert_eq!((options.nodes, options.bytes), (Some(64), 12_000_000));
    assert_eq!((options.fan_out, options.chunk), (FanOutArgument::Fixed(8), Some(256 << 10)));
    for wrong in [
        "storm model",
        "storm model predict",
        "storm model predict --nodes 4 --fan-out x",
        "storm model table",
        "storm model calibrate --nodes 0,1,2",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_help_of_the_model_says_enough_to_work_with() {
    let mut command = Cli::command().term_width(100);
    let model = command.find_subcommand_mut("model").expect("it is a verb");
    insta::assert_snapshot!("help_model", model.render_help().to_string());
    let workload = command.find_subcommand_mut("workload").expect("it is a verb");
    let lublin = workload.find_subcommand_mut("lublin").expect("it is a model");
    insta::assert_snapshot!("help_workload_lublin", lublin.render_help().to_string());
    let model = command.find_subcommand_mut("model").expect("it is a verb");
    let predict = model.find_subcommand_mut("predict").expect("it is a question");
    insta::assert_snapshot!("help_model_predict", predict.render_help().to_string());
}

#[test]
fn options_of_slurm_have_tips_of_their_own() {
    let told = |line: &str| {
        let words: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
        with_tip(parse(line).expect_err(line), &words).to_string()
    };
    for (line, tip) in [
        ("storm submit --gres=gpu:1 hostname", "--exclusive"),
        ("storm run --pty bash", "storm run"),
        ("storm run --np 4 hostname", "-n 4"),
        ("storm run --host n1,n2 hostname", "storm nodes"),
        ("storm hist --since today", "--limit"),
        ("storm submit --licenses=matlab:1 hostname", "singleton"),
        ("storm sbatch job.sh", "storm batch"),
        ("storm squeue", "storm queue"),
        ("storm queue -j 7", "storm queue 7"),
        ("storm queue -o %i", "--json"),
        ("storm queue --start", "storm explain"),
        ("storm cancel --name wave", "--state"),
        ("storm cancel --jobs 7", "storm cancel 7"),
        ("storm model size --quantum-cost 2", "--cost 2"),
        ("storm run -t -5 hostname", "-t takes no negative value"),
        ("storm submit --time -5m hostname", "--time takes no negative value"),
        ("storm sim s.toml --seed-count 4", "'--seed"),
    ] {
        let told = told(line);
        let tips: Vec<&str> = told.lines().filter(|line| line.contains("tip:")).collect();
        assert!(tips.len() == 1 && tips[0].contains(tip), "{line}: {told}");
    }
    assert!(told("storm run --ntask 4 hostname").contains("--ntasks"), "others are the parser's");
    assert!(told("storm submti x").contains("'submit'"), "of verbs as well");
    for line in ["storm run -n -3 hostname", "storm run -N -3 hostname", "storm run -c -3 hostname"]
    {
        let told = told(line);
        assert!(told.contains("a whole number from 1") && !told.contains("tip:"), "{line}: {told}");
    }
}

/// Regression: a Node Manager with such a name reported a keeper that could not be started.
#[test]
fn a_name_that_no_node_can_have_is_refused_with_the_rule() {
    for (option, value) in
        [("--name", "a b"), ("--name", "ünode"), ("--name", "../x"), ("--cluster", "my lab")]
    {
        let own = if option == "--name" { [].as_slice() } else { &["--name", "n1"] };
        let words = ["storm", "nm", "--mm", "head:7117", option, value];
        let refused = Cli::try_parse_from(words.iter().chain(own)).unwrap_err().to_string();
        assert!(refused.contains(option) && refused.contains(value), "{refused}");
        assert!(refused.contains("letters of ASCII, digits, '-', '_' and '.'"), "{refused}");
    }
    assert!(parse("storm nm --mm head:7117 --name n-1_a.b --cluster lab.2").is_ok());
}

/// Regression: the list had the verbs that only STORM itself uses.
#[test]
fn a_missing_verb_lists_those_for_users() {
    let error = with_tip(parse("storm --json").expect_err("there is no verb"), &[]).to_string();
    assert!(error.contains("submit") && error.contains("help"), "{error}");
    assert!(!error.contains("nap") && !error.contains("pmix"), "{error}");
}

#[test]
fn help_takes_the_options_of_output() {
    for line in ["storm help --json", "storm help run --json", "storm help -q"] {
        let words = line.split_whitespace().map(std::ffi::OsString::from).collect();
        let told = crate::cli::Cli::of(words).expect_err("help is no command line");
        assert!(!told.use_stderr(), "{line}: {told}");
    }
}

#[test]
fn a_job_has_no_blank_name() {
    let of = |name: &str| {
        let words = ["storm", "submit", "-J", name, "a"].map(std::ffi::OsString::from);
        crate::cli::Cli::of(words.to_vec())
    };
    assert!(of("solver").is_ok());
    for name in ["", "  "] {
        let said = of(name).expect_err("it is blank").to_string();
        assert!(said.contains("not blank"), "{said}");
    }
}
