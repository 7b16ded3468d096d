#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| voltile::fuzzing::run("scaleoffset", data));
