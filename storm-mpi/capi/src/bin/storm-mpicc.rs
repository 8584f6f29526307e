//! `storm-mpicc`: the C compiler, with `mpi.h` and `libstormmpi`.

#[path = "../wrapper.rs"]
mod wrapper;

fn main() -> std::process::ExitCode {
    wrapper::run(&wrapper::Language { name: "storm-mpicc", variable: "CC", compiler: "cc" })
}
