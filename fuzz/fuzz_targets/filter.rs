#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let filter = std::env::var("FILTER").expect("FILTER must be the name of a filter, such as lzf");
    voltile::tools::fuzzing::run(&filter, data);
});
