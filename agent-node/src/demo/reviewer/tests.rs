use super::*;
use crate::demo::tests::{ended, help, said_artifact, with_input};
use protocol::artifact::Artifact;

/// The rules that `text` breaks, each with its lines.
fn rules(name: &str, text: &str) -> Vec<(String, usize)> {
    review(name, text).into_iter().map(|finding| (finding.rule, finding.line)).collect()
}

fn finds(name: &str, text: &str, rule: &str, line: usize) {
    assert!(
        rules(name, text).contains(&(rule.to_owned(), line)),
        "{rule} in {text:?}: {:?}",
        rules(name, text)
    );
}

#[test]
fn each_rule_finds_its_own() {
    finds("a.rs", "fn f() {\n    x.unwrap();\n}\n", "panic", 2);
    finds("a.rs", "fn f() {\n    todo!()\n}\n", "panic", 2);
    finds("a.rs", "pub fn f() {}\n", "missing-docs", 1);
    finds("a.rs", "fn f() {\n    (1]\n}\n", "unbalanced-brackets", 2);
    finds("a.rs", "fn f() {\n", "unbalanced-brackets", 1);
    finds("a.rs", "fn f() { unsafe { g() } }\n", "unsafe", 1);
    finds("a.rs", "// TODO later\n", "todo", 1);
    finds("a.rs", "let x = 1; \n", "trailing-whitespace", 1);
    finds("a.rs", &format!("// {}\n", "x".repeat(120)), "long-line", 1);
    finds("a.rs", &format!("fn f() {{\n{}}}\n", "    g();\n".repeat(90)), "long-function", 1);
    finds("a.rs", "async fn f(body: web::Json<A>) {\n    save(body);\n}\n", "missing-validation", 1);
    finds("a.rs", "const API_KEY: &str = \"sk-12345678\";\n", "hard-coded-secret", 1);
    finds("a.py", "password = 'hunter22'\n", "hard-coded-secret", 1);
    finds("a.json5", "{\"password\": \"hunter22\"}\n", "hard-coded-secret", 1);
    finds("a.py", "q = \"SELECT * FROM t WHERE id = \" + id\n", "sql-injection", 1);
    finds("a.rs", "let q = format!(\"DELETE FROM t WHERE id = {id}\");\n", "sql-injection", 1);
    finds("a.js", "const q = `SELECT a FROM t WHERE id = ${id}`;\n", "sql-injection", 1);
    finds("a.py", "def f(x):\n    return eval(x)\n", "eval", 2);
    finds("a.py", "try:\n    f()\nexcept:\n    pass\n", "bare-except", 3);
    finds("a.py", "def f(x):\n    return x\n", "missing-docs", 1);
    finds("a.js", "function f(a) {\n  console.log(a);\n}\n", "debug-output", 2);
    finds("a.js", "app.post('/', function(req, res) {\n  save(req.body);\n});\n", "missing-validation", 1);
}

#[test]
fn what_stands_in_strings_and_comments_is_not_code() {
    for (name, text) in [
        ("a.rs", "fn f() -> &'static str {\n    \"}}} .unwrap() unsafe\" // .unwrap() (((\n}\n"),
        ("a.rs", "fn f(c: char) -> bool {\n    c == '{' || c == '\\'' || c == '\"'\n}\n"),
        ("a.rs", "fn f<'a>(x: &'a str) -> &'a str {\n    r#\"\"{\"#;\n    /* { /* ( */ */ x\n}\n"),
        (
            "a.rs",
            "/// Says it.\n#[must_use]\npub fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { x.unwrap(); }\n}\n",
        ),
        ("a.py", "x = 1  # unbalanced ( [ {\ny = '''\n((\n'''\n"),
        ("a.rs", "let password = std::env::var(\"PASSWORD\");\n"),
        ("a.rs", "let q = \"SELECT a FROM t WHERE id = ?\";\n"),
    ] {
        assert_eq!(rules(name, text), [], "{text}");
    }
}

#[test]
fn code_is_found_wherever_it_was_put() {
    let code = "fn f() {\n    x.unwrap();\n}";
    for ask in [
        help("what do you say?", vec![Artifact::text("a.rs", "text/x-rust", code)]),
        with_input("review it", serde_json::json!({ "code": code })),
        with_input("review it", serde_json::json!(code)),
        with_input("review it", serde_json::json!({ "files": [{ "name": "a.rs", "content": code }] })),
        with_input("review it", serde_json::json!({ "a.rs": code })),
        crate::brain::tests::ask(&format!("Please review:\n```rust\n{code}\n```\nThank you")),
        crate::brain::tests::ask(&format!("Review this code: {code}")),
    ] {
        let said = answer(&ask);
        let summary = ended(&said).unwrap().unwrap();
        assert!(summary.contains("1 thing: 1 medium (panic)"), "{summary}");
        let report = crate::demo::asked::data(&said_artifact(&said, "review.json").unwrap()).unwrap();
        assert_eq!(report["counts"]["medium"], 1);
    }
    assert!(ended(&answer(&crate::brain::tests::ask("how are you?"))).unwrap().is_err());
}

proptest::proptest! {
    #[test]
    fn any_code_can_be_read(text in "[a-z{}()\\[\\]\"'`#/*\\\\ \nä€=:;.]{0,300}", name in "a\\.(rs|py|js|sql|c|)") {
        let _ = review(&name, &text);
    }
}
