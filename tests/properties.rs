//! Parsers of untrusted input, on a corpus, on changes of it and on random texts. `tests/fuzz` runs the first four checks under
//! cargo-fuzz.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fuzz/checks/a2a.rs"]
mod a2a;
#[path = "fuzz/checks/envelope.rs"]
mod envelope;
#[path = "fuzz/checks/headers.rs"]
mod headers;
#[path = "fuzz/checks/json.rs"]
mod json;

use agent_node::{
    brain::json_lines,
    config::Team,
    outbox::outbound_client::{Error, OutboundClient},
};
use proptest::{prelude::*, test_runner::TestRunner};
use protocol::address_policy::{AddressPolicy, what_is_wrong_with};
use std::{net::IpAddr, path::Path, sync::LazyLock};

/// The files of a corpus, and text that is like them.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/seeds").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{}", dir.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Where a piece begins and ends, and what replaces it.
type Change = (prop::sample::Index, prop::sample::Index, Vec<u8>);

/// Calls `check` with every file of the corpus and with changes of them: pieces replaced, repeated, cut or followed by others.
fn on_changes(name: &str, check: impl Fn(&[u8])) {
    let seeds = corpus(name);
    seeds.iter().for_each(|seed| check(seed));
    let pieces = prop::sample::select(vec![
        b"\0".to_vec(),
        b"\"".to_vec(),
        b"\\u0000".to_vec(),
        b"\xff".to_vec(),
        b"{}".to_vec(),
        b"[[[[[[[[".to_vec(),
        b"-1e999".to_vec(),
        b"\r\n\r\n".to_vec(),
        "\u{202e}".as_bytes().to_vec(),
        b"null".to_vec(),
    ]);
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), pieces);
    let changes = (prop::sample::select(seeds), prop::collection::vec(change, 1..4));
    let run = |(mut bytes, changes): (Vec<u8>, Vec<Change>)| {
        for (from, to, piece) in &changes {
            let (one, other) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            bytes.splice(one.min(other)..one.max(other).min(one.min(other) + 8), piece.iter().copied());
        }
        check(&bytes);
        Ok(())
    };
    TestRunner::new(ProptestConfig::with_cases(2_000)).run(&changes, run).unwrap();
}

#[test]
fn the_strict_json_parser_agrees_with_serde_json() {
    on_changes("json", json::check);
}

#[test]
fn an_accepted_envelope_is_read_back_as_the_same() {
    on_changes("envelope", envelope::check);
}

#[test]
fn every_a2a_value_that_is_read_is_read_back_as_the_same() {
    for kind in 0..12 {
        on_changes("a2a", |bytes| a2a::check(&[&[kind], bytes.get(1..).unwrap_or_default()].concat()));
    }
}

#[test]
fn lines_of_a_brain_are_read_or_refused() {
    on_changes("brain", |line| {
        if let Ok(read) = json_lines::parse(line) {
            let written: wire::line::OutputLine = serde_json::from_slice(line).expect("a line");
            let again = serde_json::to_vec(&written).expect("a line");
            assert_eq!(json_lines::parse(&again), Ok(read));
        }
    });
}

#[test]
fn yaml_is_read_or_refused_with_a_reason() {
    on_changes("yaml", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(faults) = Team::parse("team.yaml", &text, None) {
            assert!(!faults.0.is_empty() && !faults.to_string().is_empty());
        }
    });
}

static CLIENT: LazyLock<OutboundClient> =
    LazyLock::new(|| OutboundClient::new(AddressPolicy::default(), Default::default()).unwrap());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn headers_cursors_and_forged_signatures(one in "\\PC{0,60}", two in "\\PC{0,60}", three in "[ -~]{0,80}") {
        headers::check((&one, &two, &three));
        headers::check((&three, &one, &two));
        headers::check((&format!("00-{:032x}-{:016x}-01", one.len() + 1, 7), &two, &three));
        headers::check((&format!("g-{}", two.len()), &one, &three));
    }

    #[test]
    fn no_url_leads_to_a_blocked_address(
        scheme in "(http|https|ftp|file|HTTP)",
        user in "([a-z]{0,3}(:[a-z]{0,2})?@)?",
        host in "([0-9a-fx.]{1,20}|\\[[0-9a-f:.]{2,30}\\]|127\\.[0-9.]{1,9}|0x[0-9a-f]{8}|[0-9]{8,10}|localhost\\.?)",
        rest in "(:[0-9]{1,6})?(/[ -~]{0,10})?",
    ) {
        let url = format!("{scheme}://{user}{host}{rest}");
        match CLIENT.check(&url) {
            Err(Error::BadUrl(why) | Error::AddressRefused(why)) => prop_assert!(!why.is_empty()),
            Err(other) => prop_assert!(false, "{url}: {other:?}"),
            Ok(()) => {
                let parsed = reqwest::Url::parse(&url).unwrap();
                prop_assert!(matches!(parsed.scheme(), "http" | "https") && parsed.username().is_empty());
                let literal = parsed.host_str().unwrap().trim_matches(['[', ']']).parse::<IpAddr>();
                let is_blocked = literal.is_ok_and(|ip| what_is_wrong_with(ip).is_some());
                prop_assert!(!is_blocked, "{url} may be called");
            }
        }
    }
}
