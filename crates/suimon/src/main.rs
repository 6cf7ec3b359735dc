//! `suimon`, the one binary: every kind of discipline of the engine, and the verbs of the library.

fn main() -> std::process::ExitCode {
    suimon::main(engine::tree::Registry::builtin())
}
