//! What is masked, form by form, and what is not; and that it takes no time.

mod cost;
mod forms;

use super::*;
use forms::{HIDDEN, INVENTED, NAMED, ORDINARY, PASTED, WRITTEN};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::json;

fn full(content: &Value) -> String {
    Capture::new(Level::Full, ["join-secret-canary".to_owned(), "short".to_owned()]).told(content).unwrap()
}

/// Whether something of it is masked or withheld.
fn is_marked(told: &str) -> bool {
    told.contains(text::MASK) || told.contains(text::WITHHELD)
}

#[test]
fn no_form_of_a_credential_is_told() {
    let mut told = Vec::new();
    let texts = || HIDDEN.iter().chain(PASTED).chain(WRITTEN).chain(INVENTED).chain(NAMED);
    for text in texts() {
        let alone = full(&json!(text));
        let within = full(&json!({ "description": text, "list": [text] }));
        let amid = full(&json!(format!("Before it.\n{text}\nAfter it.")));
        let apart = full(&json!(format!("Before all of it.\nIn two lines.\n\n{text}\n\nAfter it.")));
        let packed = full(&json!(json!({ "text": json!({ "text": text }).to_string() }).to_string()));
        for shown in [alone, within, amid, apart, packed] {
            if shown.contains("canary") || !is_marked(&shown) {
                told.push(format!("{text:?} is told as {shown:?}"));
            }
        }
    }
    assert!(told.is_empty(), "{} of {}:\n{}", told.len(), texts().count() * 5, told.join("\n"));
}

#[test]
fn what_names_no_credential_is_told_as_it_is() {
    let shown: Vec<_> = ORDINARY.iter().map(|text| (text, full(&json!(text)))).collect();
    let wrong: Vec<_> = shown.iter().filter(|(text, told)| told != **text).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for structure in [
        json!({ "taskId": "0190b5a2-7b1e-7c3d-9e4f-5a6b7c8d9e0f", "capability": "login", "description": "paint it blue" }),
        json!({ "artifacts": [{ "artifactId": "a", "name": "NOTES.md", "sha256": "0123456789abcdef".repeat(4), "size": 7 }] }),
        json!({ "input": { "resources": [{ "name": "books", "fields": ["title", "price:float"] }], "usage": { "max_tokens": 1024 } } }),
        json!({ "input": { "error": { "code": -32601, "message": "no such method" } } }),
        json!({ "command": ["docker", "run", "-v", "/x:/y", "image"], "rows": [["a", "b"], ["c", "d"]], "seq": 7 }),
    ] {
        assert_eq!(full(&structure), structure.to_string());
    }
}

#[test]
fn what_names_a_credential_goes_whole_and_identifiers_stay() {
    let text = "# Shop\n\nIt sells books.\n\nMore of it.\n\nThe password is x.\n\nFar from it.\nThe end.\n";
    assert_eq!(full(&json!(text)), text::WITHHELD);
    let long = "it sells books and more ".repeat(LOOKED_AT / 24 - 10);
    assert_eq!(full(&json!(format!("{long} the password {long}"))), text::WITHHELD);
    let long = &long[..LOOKED_AT / 2];
    let request = json!({ "taskId": "t-1", "description": "Plan it.", "seq": 7, "canary": 1, "name": "canary",
        "input": { "word": "canary", "deep": [[{ "a": [{ "b": format!("{long} the login is x") }] }]] },
        "task": { "contextId": "c-1", "description": "canary" },
        "artifacts": [{ "artifactId": "a-1", "parts": [{ "text": "canary" }] }] });
    let told: Value = serde_json::from_str(&full(&request)).unwrap();
    assert_eq!(
        (&told["taskId"], &told["seq"], &told["task"]["contextId"]),
        (&json!("t-1"), &json!(7), &json!("c-1"))
    );
    assert_eq!(
        (&told["description"], &told["artifacts"][0]["artifactId"]),
        (&json!(text::WITHHELD), &json!("a-1"))
    );
    assert!(!told.to_string().contains("canary"), "{told}");
}

#[test]
fn an_object_that_names_a_credential_goes_whole() {
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
        "mfa_code",
        "пароль",
        "密码",
    ];
    for name in names {
        for value in [
            json!("canary"),
            json!(["canary"]),
            json!({ "a": { "b": "canary" } }),
            json!("canary canary"),
            json!(471_147),
        ] {
            let content =
                json!({ "input": { name: value, "n": "canary" }, "seq": 1, "description": "canary" });
            let told = full(&content);
            assert!(!told.contains("canary") && !told.contains("471147"), "{told}");
            assert!(told.contains("\"seq\":1"), "{told}");
            assert!(!full(&json!({ name: value })).contains("canary"));
        }
    }
}

#[test]
fn what_stands_beside_or_behind_a_name_goes() {
    for structure in [
        json!({ "args": ["--password", "canary", "--verbose"] }),
        json!({ "headers": [["Authorization", "canary"], ["accept", "text/plain"]] }),
        json!({ "env": [{ "Name": "password", "Value": "canary" }] }),
        json!([{ "Field": "openai_key", "VALUE": "canary" }]),
        json!([{ "value": "canary", "name": "password" }]),
        json!([{ "type": "password", "value": "canary" }]),
        json!([{ "id": "db_password", "text": "canary" }]),
        json!({ "columns": ["user", "password"], "rows": [["bob", "canary"], ["eve", "canary"]] }),
        json!({ "columns": [{ "name": "user" }, { "name": "password" }], "rows": [["bob", "canary"], ["eve", "canary"]] }),
        json!([["user", "password", "age"], ["bob", "canary", 3], ["eve", "canary", 4]]),
        json!({ "kind": "Secret", "metadata": { "name": "db" }, "data": { "x": "canary" } }),
        json!({ "command": ["curl", "-u", "bob:canary", "https://example.org"] }),
        json!({ "argv": ["redis-cli", "-a", "canary"] }),
        json!({ "argv": ["gh", "auth", "canary"] }),
        json!({ "question": "What is the password?", "answer": "canary" }),
        json!({ "input": { "question": "What is the password?", "answer": "canary" } }),
        json!({ "input": { "chat": [{ "role": "user", "content": "The password?" }, { "role": "assistant", "content": "canary" }] } }),
        json!({ "input": { "chat": [{ "say": { "text": "The password?" } }, { "say": { "text": "canary" } }] } }),
        json!({ "parts": [{ "text": "x ".repeat(300) + "and the password?" }, { "text": "canary" }] }),
        json!({ "artifacts": [{ "name": "api_token.txt", "parts": [{ "text": "canary" }] }] }),
        json!({ "message": "Here is the password you asked for.", "artifacts": [{ "name": "it", "parts": [{ "text": "canary" }] }] }),
        json!({ "description": "Rotate the token to the one in the input.", "input": { "new": "canary" } }),
        json!({ "parts": [{ "data": { "secrets": { "db": { "main": "canary" } } } }, { "text": "user,password\nbob,canary" }] }),
        json!({ "metadata": { "credentials": [{ "user": "bob", "word": "canary" }] }, "input": { "auth": { "basic": "canary" } } }),
        json!({ "input": { "schema": { "a": "password" }, "row": { "a": "canary" } } }),
        json!({ "input": { "tool": "get_secret", "args": { "id": "db" }, "result": "canary" } }),
        json!({ "input": { "sensitive": true, "password": null, "x": [{ "apiKey": "canary" }] } }),
        json!({ "input": { "openai": { "key": "canary" } } }),
        json!({ "input": { "keys": { "openai": "canary" } } }),
        json!({ "parts": [{ "text": "canary" }, { "text": "is the password" }] }),
        json!({ "updates": [{ "text": "canary" }, { "type": "status", "message": "that was the password" }] }),
        json!({ "input": { "canary": "password" } }),
        json!({ "input": { "passwords": { "canary": true } } }),
        json!({ "input": { "-p": "canary" } }),
        json!({ "input": { "--user": "bob:canary" } }),
        json!({ "input": { "key": "canary", "of": "openai" } }),
        json!({ "input": { "code": "482913", "to": "canary" } }),
        json!({ "input": { "argv": ["curl", "-sSu", "bob:canary"] } }),
        json!({ "input": { "argv": ["API", "key", "canary"] } }),
        json!({ "input": ["log", "in", { "as": "bob", "api key": "canary" }] }),
    ] {
        let told = full(&structure);
        assert!(!told.contains("canary"), "{structure} is told as {told}");
    }
}

#[test]
fn nothing_is_told_after_what_names_a_credential() {
    let capture = Capture::new(Level::Full, []);
    let long = "x ".repeat(300);
    for first in [
        json!({ "description": "Tell me the password of staging" }),
        json!({ "description": format!("{long}\n\nKeep the login as it is.\n\n{long}") }),
        json!({ "question": format!("{long}, and the password?") }),
        json!({ "end": "waiting", "updates": [{ "type": "question", "id": "q", "text": "The password?" }] }),
        json!({ "task": { "description": "Which PIN?" }, "turn": 1 }),
        json!({ "input": { "a": [{ "token": "x" }] } }),
        json!({ "done": "this is the password" }),
    ] {
        let mut telling = Telling::of(&capture);
        let before = telling.told(&json!({ "done": "early" })).unwrap();
        let named = telling.told(&first).unwrap();
        assert!(before.contains("early") && named.contains(text::WITHHELD), "{first}: {named}");
        for after in [json!({ "done": "canary" }), json!({ "description": "canary" }), json!("canary")] {
            assert_eq!(telling.told(&after).unwrap(), AFTER, "{first}");
        }
        assert_eq!(telling.told(&Value::Null), None);
    }
    let mut telling = Telling::of(&capture);
    for said in ["paint it blue", "it is blue"] {
        assert!(telling.told(&json!({ "done": said })).unwrap().contains(said));
    }
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

#[test]
fn groups_of_letters_and_our_own_in_another_case_are_masked() {
    for text in ["it is abcd-efgh-ijkl-mnop", "it: qxwv zrtk plmn bvcd", "use xkqzwv-8plmnb-vcxzas"] {
        assert!(full(&json!(text)).ends_with(text::MASK), "{text}");
    }
    let capture = Capture::new(Level::Full, ["Nightingale".to_owned()]);
    for text in ["NIGHTINGALE", "nightingale"] {
        assert_eq!(capture.told(&json!(text)).unwrap(), text::MASK);
    }
    assert_eq!(full(&json!("so they will also need some more")), "so they will also need some more");
}

/// The same texts each time, and others where somebody looks for such (`PROPTEST_CASES=20000 PROPTEST_RNG_SEED=7`).
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
    fn in_a_paragraph_that_names_one_no_word_is_told(
        before in r#"([a-z"'\\{}\[\]<>=:;,&%$()|0-9A-Z \n-]|\n  ){0,40}"#,
        between in r#"[a-z"'\\{}\[\]<>=:;,&%$()| -]{0,20}"#,
        after in r#"[a-z"'\\{}\[\]<>=:;,&%$()| -]{0,20}"#,
        name in prop::sample::select(&["password", "API key", "apiKey", "token", "PIN", "secret", "Passwort", "log in", "密码", "пароль",
            "mfa_code", "Authorization", "one-time code", "DB_PWD", "seed phrase", "credentials", "pass-phrase", "mot de passe"]),
        value in "[a-z]{4}qx[a-z]{2,8}",
        is_first in any::<bool>(),
        times in 0usize..3,
    ) {
        let (one, other) = if is_first { (name, value.as_str()) } else { (value.as_str(), name) };
        let mut text = json!(format!("{before} {one} {between} {other} {after}").replace("\n\n", "\n"));
        for _ in 0..times {
            text = json!(text.to_string());
        }
        let told = full(&text);
        prop_assert!(!told.contains(&value), "{text:?} is told as {told:?}");
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
