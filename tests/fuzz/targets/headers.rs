#![no_main]

#[path = "../checks/headers.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|texts: (&str, &str, &str)| checks::check(texts));
