#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| voltile::tools::fuzzing::run("addresses", data));
