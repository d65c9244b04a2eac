//! Masking takes time in proportion to the text, whatever the text.

use super::*;
use std::time::{Duration, Instant};

/// What a pathological text costs is what any text of that length costs, give or take.
#[test]
fn masking_takes_time_in_proportion() {
    let pieces = [
        "password",
        "password=",
        "\"token\":",
        "token={",
        "<secret>",
        "<secret a=1 ",
        "'auth':\"",
        "key: value, ",
        "$6$",
        "://",
        "://a:b",
        "-----BEGIN RSA PRIVATE KEY",
        "name: TOKEN ",
        "%25",
        "\\\\",
        "&amp;",
        "Bearer ",
        "abcdefg",
        "token=a;",
        "[token:[",
        "Authorization: a=\"",
        "| token ",
        "Password\n",
        "password: |\n ",
        "eyJ.",
        "aGVsbG8gd29ybGQ",
        "password is ",
        "-u a",
        "(\"token\", ",
        "tokens:\n- a1\n",
        "secrets:\n  a: b\n",
        "secrets:\n secrets:\n",
        "secrets:\n  a",
        "secrets:\n\n\n\n",
        "| user | password |\n|-|-|\n",
        "|password",
        "user,password\n",
        "\"user\",password\n",
        "user  password\n",
        "user:password\n",
        "<tr><th>password</th>",
        "<td><th",
        "insert into t (password) values ('",
        "insert into t (",
        "values ('a'),",
        "into users values (",
        "copy t (password) from stdin\n",
        "set_password(",
        "set_password(\"",
        "password.set(\"",
        "password::",
        "login(a, ",
        "\"a\" == token ",
        "assert(\"a\", token",
        "| echo a | token ",
        "token || \"",
        "{\"value\":\"a\",\"name\":\"token\",",
        "- value: a\n  name: token\n",
        "password => ",
        "password (",
        "password: must be ",
        "password: a b c d e ",
        "token = a[",
        "token = a(",
        "token = a.b",
        "token = await ",
        "token = [",
        "secrets: {a: ",
        "kind: Secret\ndata:\n  a: b\n",
        "a:1:b:c:d\n",
        "\"a:1:b:c:",
        "net user a b ",
        "vault write ",
        "htpasswd -b a b ",
        "Private-Lines: ",
        "mysql -p",
        "http -a a:b",
        "token=a(;'",
        "the password for a b c d ",
        "[token]\na=b\n",
        "[token]\n[token]\n",
        "[token]\n",
        "password? a ",
        "as password ",
        "token[",
        "token[a] = ",
        "a.token.b=",
        "\"a.b.token\",\"",
        "\"password:\" send ",
        "user,password\na,\"",
        "\".toCharArray",
        "<<< token ",
        "sqlplus a/",
        "token.a.b.c.d(",
        "secrets set ",
        "bcrypt.hash(",
        "password=\"\\\n",
        "password=\"\na",
        "password=\"\"\"\na",
        "password <- ",
        "password was set to a1b2c3 to a1b2c3 ",
        "password (a) = ",
        "password NVARCHAR(5) ",
        "password <- ",
        "password was set to a1b2c3 to a1b2c3 ",
        "password (a) = ",
        "password NVARCHAR(5) ",
        "password of a = ",
        "password [a]: ",
        "--token\n- ",
        "> echo token ",
        "echo > token ",
    ];
    let capture = Capture::new(Level::Full, ["abcdefgh".to_owned(), "\\\\\\\\\\\\\\\\\\\\".to_owned()]);
    for piece in pieces {
        let text = json!(piece.repeat(LOOKED_AT / piece.len()));
        let mut took = std::iter::repeat_with(|| {
            let begun = Instant::now();
            capture.told(&text);
            begun.elapsed()
        });
        // A machine that is busy with something else gets more tries.
        let is_quick = took.by_ref().take(3).any(|took| took < Duration::from_secs(3));
        assert!(is_quick, "{piece:?} takes {:?}", took.next());
    }
}

/// `cargo test -p agent-node --release --lib capture -- --ignored --nocapture`
#[test]
#[ignore = "a figure, for people"]
fn what_masking_16_kib_costs() {
    let secrets = (0..20).map(|number| format!("a-secret-of-ours-{number}"));
    let capture = Capture::new(Level::Full, secrets);
    let prose = ORDINARY.join("\n\n");
    let code = HIDDEN.join("\n\n");
    for (what, text) in
        [("prose", prose), ("credentials", code), ("demo", include_str!("../../story.rs").to_owned())]
    {
        let text = json!(text.repeat(MOST / text.len() + 1)[..].chars().take(15_000).collect::<String>());
        let begun = Instant::now();
        for _ in 0..100 {
            capture.told(&text);
        }
        println!("16 KiB of {what}: {:?}", begun.elapsed() / 100);
    }
}
