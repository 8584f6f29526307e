//! The functions of `mpi.h`, by the header's sections. Each function checks and translates its
//! arguments. The standard defines the meaning of the functions, and the comments do not repeat it.

mod allocation;
mod attributes;
mod both_ways;
mod collectives;
mod comms;
mod contents;
mod counts;
mod darrays;
mod datatypes;
mod duplicates;
mod environment;
mod epochs;
mod errors;
mod files;
mod fixed_graphs;
mod generalized;
mod graphs;
mod grids;
mod groups;
mod handles;
mod infos;
mod intercomms;
mod matched;
mod messages;
mod neighbours;
mod new_comm;
mod operations;
mod packing;
mod persistent;
mod persistent_neighbours;
mod persistent_reductions;
mod reductions;
mod remote;
mod requests;
mod shared_transfers;
mod short;
mod spawning;
mod statuses;
mod tables;
mod transfers;
mod vectors;
mod waiting;
mod windows;

#[cfg(test)]
mod tests {
    /// The functions of the library, in the order of their names.
    fn defined() -> Vec<String> {
        let sources = [
            include_str!("allocation.rs"),
            include_str!("attributes.rs"),
            include_str!("both_ways.rs"),
            include_str!("collectives.rs"),
            include_str!("comms.rs"),
            include_str!("contents.rs"),
            include_str!("counts.rs"),
            include_str!("darrays.rs"),
            include_str!("datatypes.rs"),
            include_str!("duplicates.rs"),
            include_str!("environment.rs"),
            include_str!("epochs.rs"),
            include_str!("errors.rs"),
            include_str!("files.rs"),
            include_str!("fixed_graphs.rs"),
            include_str!("generalized.rs"),
            include_str!("graphs.rs"),
            include_str!("grids.rs"),
            include_str!("groups.rs"),
            include_str!("handles.rs"),
            include_str!("infos.rs"),
            include_str!("intercomms.rs"),
            include_str!("matched.rs"),
            include_str!("messages.rs"),
            include_str!("neighbours.rs"),
            include_str!("operations.rs"),
            include_str!("packing.rs"),
            include_str!("persistent.rs"),
            include_str!("persistent_neighbours.rs"),
            include_str!("persistent_reductions.rs"),
            include_str!("reductions.rs"),
            include_str!("remote.rs"),
            include_str!("requests.rs"),
            include_str!("shared_transfers.rs"),
            include_str!("spawning.rs"),
            include_str!("statuses.rs"),
            include_str!("transfers.rs"),
            include_str!("vectors.rs"),
            include_str!("waiting.rs"),
            include_str!("windows.rs"),
        ];
        let lines = sources.iter().flat_map(|source| source.lines()).map(str::trim_start);
        let functions = lines.filter_map(|line| {
            // A row of a table has one or two names, before arguments or a mark.
            let row = line.strip_prefix("extern \"C\" ").unwrap_or(line).strip_prefix("fn MPI_")?;
            row.split(['(', ':', ';']).next()
        });
        let names = functions.flat_map(|names| names.split(", MPI_"));
        let mut defined: Vec<String> = names.map(|name| format!("MPI_{name}")).collect();
        defined.sort_unstable();
        defined
    }

    /// The text before the arguments.
    fn name(rest: &str) -> String {
        rest.split('(').next().unwrap_or_default().to_owned()
    }

    /// The library has exactly the functions that the header declares. A program that uses others
    /// does not link.
    #[test]
    fn the_header_and_the_library_name_the_same_functions() {
        let headers = [
            include_str!("../../include/mpi.h"),
            include_str!("../../include/storm_mpi_background.h"),
            include_str!("../../include/storm_mpi_files.h"),
            include_str!("../../include/storm_mpi_handles.h"),
            include_str!("../../include/storm_mpi_persistent.h"),
            include_str!("../../include/storm_mpi_types.h"),
            include_str!("../../include/storm_mpi_windows.h"),
        ];
        let mut declared: Vec<String> = headers
            .iter()
            .flat_map(|header| header.lines())
            .filter_map(|line| {
                let (kind, name) = line.split_once(' ')?;
                let is_result = ["int", "double"].contains(&kind) || kind.starts_with("MPI_");
                (is_result && name.starts_with("MPI_")).then_some(name)
            })
            .map(name)
            .collect();
        declared.sort_unstable();
        assert_eq!(defined(), declared);
    }

    #[test]
    fn every_function_has_its_second_name() {
        let defined = defined();
        let again = include_str!("../../include/storm_mpi_profiling.h");
        let again = again.split("STORM_MPI_PROFILED(").filter(|rest| rest.starts_with("MPI_"));
        let again: Vec<&str> = again.filter_map(|rest| rest.split(')').next()).collect();
        assert_eq!(again, defined, "the second names that are declared");
        let jumps = include_str!("../profiling.rs").split("profiled! {\n").nth(1);
        let jumps = jumps.unwrap_or_default().split_whitespace();
        let jumps: Vec<&str> = jumps.filter(|word| word.starts_with("MPI_")).collect();
        assert_eq!(jumps, defined, "the second names that are there");
    }
}
