//! The `voltile` program; everything is in the library.

fn main() -> std::process::ExitCode {
    voltile::cli::run()
}
