//! The `doorbell` command; the library has it all.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    doorbell_cli::main()
}
