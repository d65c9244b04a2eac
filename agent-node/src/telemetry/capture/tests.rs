//! What is masked, form by form, and what is not; and that it takes no time.

mod cost;
mod forms;

use super::*;
use forms::{HIDDEN, ORDINARY, PASTED, SHOWN, WRITTEN};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::json;

fn full(content: &Value) -> String {
    Capture::new(Level::Full, ["join-secret-canary".to_owned(), "short".to_owned()]).told(content).unwrap()
}

#[test]
fn no_form_of_a_credential_is_told() {
    let mut told = Vec::new();
    for text in HIDDEN.iter().chain(PASTED).chain(WRITTEN) {
        let alone = full(&json!(text));
        let within = full(&json!({ "description": text, "list": [text] }));
        let amid = full(&json!(format!("Before it.\n{text}\nAfter it.")));
        let packed = full(&json!(json!({ "text": json!({ "text": text }).to_string() }).to_string()));
        for shown in [alone, within, amid, packed] {
            if shown.contains("canary") || !shown.contains(text::MASK) {
                told.push(format!("{text:?} is told as {shown:?}"));
            }
        }
    }
    assert!(
        told.is_empty(),
        "{} of {}:\n{}",
        told.len(),
        (HIDDEN.len() + PASTED.len() + WRITTEN.len()) * 4,
        told.join("\n")
    );
}

#[test]
fn ordinary_words_keep_their_meaning() {
    let shown: Vec<_> = SHOWN.iter().chain(ORDINARY).map(|text| (text, full(&json!(text)))).collect();
    let wrong: Vec<_> = shown.iter().filter(|(text, told)| told != **text).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let spec = json!({ "properties": { "password": { "type": "string", "required": true }, "title": { "type": "string" } } });
    assert_eq!(full(&spec), spec.to_string());
}

#[test]
fn members_with_a_credentials_name_are_masked_whatever_stands_there() {
    let names = [
        "pwd",
        "pin",
        "auth",
        "passwd",
        "passphrase",
        "apiKey",
        "client_secret",
        "session",
        "cookie",
        "Set-Cookie",
        "X-Api-Key",
        "accessToken",
        "DB_PASSWORD",
        "authorization",
        "privateKey",
        "tokens",
    ];
    for name in names {
        for value in
            [json!("canary"), json!(["canary"]), json!({ "a": { "b": "canary" } }), json!("canary canary")]
        {
            let told = full(&json!({ "input": { name: value }, "n": 1 }));
            assert!(!told.contains("canary") && told.contains(name) && told.contains("\"n\":1"), "{told}");
        }
    }
    let told = full(
        &json!({ "pin": 1234, "password": 987654, "headers": [{ "name": "X-Token", "value": "canary" }] }),
    );
    assert!(!told.contains("1234") && !told.contains("9876") && !told.contains("canary"), "{told}");
}

#[test]
fn what_is_named_beside_or_before_it_is_masked() {
    for structure in [
        json!({ "args": ["--password", "canary", "--verbose"] }),
        json!({ "headers": [["Authorization", "canary"], ["accept", "text/plain"]] }),
        json!({ "env": [{ "Name": "password", "Value": "canary" }] }),
        json!([{ "Field": "openai_key", "VALUE": "canary" }]),
        json!([{ "value": "canary", "name": "password" }]),
        json!({ "columns": ["user", "password"], "rows": [["bob", "canary"], ["eve", "canary"]] }),
        json!([["user", "password", "age"], ["bob", "canary", 3], ["eve", "canary", 4]]),
        json!({ "kind": "Secret", "metadata": { "name": "db" }, "data": { "x": "canary" } }),
        json!({ "command": ["curl", "-u", "bob:canary", "https://example.org"] }),
        json!({ "argv": ["redis-cli", "-a", "canary"] }),
        json!({ "question": "What is the password?", "answer": "canary" }),
        json!({ "artifacts": [{ "name": "api_token.txt", "parts": [{ "text": "canary" }] }] }),
        json!({ "parts": [{ "data": { "secrets": { "db": { "main": "canary" } } } }, { "text": "user,password\nbob,canary" }] }),
        json!({ "metadata": { "credentials": [{ "user": "bob", "word": "canary" }] }, "input": { "auth": { "basic": "canary" } } }),
    ] {
        let told = full(&structure);
        assert!(!told.contains("canary"), "{told}");
    }
    for structure in [
        json!({ "password": { "type": "string", "minLength": 8, "description": "The user's password" } }),
        json!({ "secretKeyRef": { "name": "db", "key": "password" }, "volume": { "secret": { "secretName": "db" } } }),
        json!({ "headers": ["name", "size"], "rows": [["a", 1]], "pairs": [["a", "b"], ["c", "d"]] }),
        json!({ "question": "Which token is wrong?", "answer": "the one that was sent first" }),
        json!({ "command": ["docker", "run", "-u", "1000:1000", "image"] }),
    ] {
        assert_eq!(full(&structure), structure.to_string());
    }
    let told = full(&json!({ "args": ["build", "--verbose", "all"], "size": ["wide", "high"] }));
    assert!(["build", "all", "high"].iter().all(|word| told.contains(word)), "{told}");
}

#[test]
fn nothing_its_shape_or_all_is_told() {
    let content = json!({
        "description": "paint it blue", "seq": 7, "canaryMember": "x", "append": true,
        "input": { "canary-name": { "canary-deep": [1] } },
        "artifacts": [{ "artifactId": "x", "parts": [{ "text": "abc" }], "metadata": { "canary": 1 } }],
    });
    let told = |level| Capture::new(level, []).told(&content);
    assert_eq!(told(Level::Off), None);
    assert_eq!(
        serde_json::from_str::<Value>(&told(Level::Redacted).unwrap()).unwrap(),
        json!({
            "description": "[13 characters]", "seq": "[number]", "append": "[boolean]", "input": "[1 members]", "…": "[1 members more]",
            "artifacts": [{ "artifactId": "[1 characters]", "parts": [{ "text": "[3 characters]" }], "metadata": "[1 members]" }],
        })
    );
    assert!(told(Level::Full).unwrap().contains("paint it blue"));
}

/// Masking goes by look and name, so some odd text may defeat it: the same texts each time, and others where somebody
/// looks for such (`PROPTEST_CASES=20000 PROPTEST_RNG_SEED=7`).
fn same_each_time() -> ProptestConfig {
    let config = ProptestConfig::default();
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20_261_122),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    ProptestConfig { rng_seed, ..config }
}

proptest! {
    #![proptest_config(same_each_time())]

    #[test]
    fn whatever_comes_is_told_within_bounds(text in "(?s).{0,400}", times in 1usize..200) {
        let told = Capture::new(Level::Full, ["abcdefgh".to_owned()]).told(&json!(text.repeat(times))).unwrap();
        prop_assert!(told.len() <= MOST + 40);
        prop_assert!(!told.contains("abcdefgh"));
    }

    #[test]
    fn whatever_stands_around_it_a_credential_is_masked(
        before in r#"([a-z"'\\{}\[\]<>=:;,&%$()| \n-]|password|token=|"auth":|<secret>){0,30}"#,
        after in r#"[ \n]([a-z"'\\{}\[\]<>=:;,&%$()| \n-]|password|token=|"auth":|</secret>){0,30}"#,
        form in prop::sample::select(&["password=Canary7Canary", "\"apiKey\":\"Canary7Canary\"", "ghp_Canary7Canary", "--token Canary7Canary",
            "password => Canary7Canary", "INSERT INTO t (a, password) VALUES (1, 'Canary7Canary');",
            "| user | password |\n|---|---|\n| bob | Canary7Canary |\n", "secrets:\n  db: Canary7Canary\n"]),
    ) {
        let text = format!("{before}\n{form}{after}");
        let told = full(&json!(text));
        prop_assert!(!told.contains("Canary7Canary"), "{text:?} is told as {told:?}");
    }

    #[test]
    fn whatever_it_is_a_credential_is_masked(
        value in "[a-zA-Z]{3}(qx|Zk)[a-z0-9]{2,6}[A-Za-z0-9!#_+-]{0,6}[a-z0-9]",
        form in prop::sample::select(&[
            "password: {}", "PASSWORD={}", "password = '{}'", "{\"password\":\"{}\"}", "secrets:\n  db: {}", "credentials:\n  - {}",
            "user,password\nbob,{}", "| user | password |\n|--|--|\n| bob | {} |", "INSERT INTO users (name, password) VALUES ('bob', '{}')",
            "set_password(\"{}\")", "x.basic_auth(\"bob\", \"{}\")", "password => {}", "password -> {}", "password ({})",
            "token = os.environ.get(\"TOKEN\", \"{}\")", "echo ${TOKEN:-{}}", "{\"value\":\"{}\",\"name\":\"password\"}",
            "password: \"must be {}\"", "[credentials]\nbob = {}", "CREATE USER bob IDENTIFIED BY '{}'", "--token {}",
        ]),
    ) {
        let text = form.replace("{}", &value);
        let told = full(&json!(text));
        prop_assert!(!told.contains(&value), "{text:?} is told as {told:?}");
    }

    #[test]
    fn our_own_secret_is_masked_wherever_and_however_it_stands(
        secret in "[a-zA-Z0-9+/ =&\"-]{4}[a-z!]{6}", before in "[a-z \n]{0,7}", after in "[a-z \n]{0,7}",
    ) {
        let capture = Capture::new(Level::Full, [secret.clone()]);
        let secret = secret.trim();
        let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{before}{secret}{after}"));
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for form in [secret, &percent, &json!(secret).to_string(), &json!(json!(secret).to_string()).to_string(), &base64] {
            let told = capture.told(&json!(format!("{before}{form}{after}"))).unwrap();
            let core = form.trim_matches(['"', '\\']);
            prop_assert!(!told.contains(core), "{form:?} of {secret:?} is told as {told:?}");
        }
    }
}
