//! Members that say no more than their absence would (A2A §8.4.1): proto3 leaves them out, and so does a signer.

use serde_json::{Map, Value};

/// The shape of one message of the card: which members stay whatever they hold, and which hold messages of their own.
struct Shape {
    /// REQUIRED members, and `optional` ones, which mean something even when they hold a default.
    kept: &'static [&'static str],
    /// Members that hold a message, a list of them, or a map to them.
    nested: &'static [(&'static str, Holds, &'static Shape)],
    /// Members that are the sender's own: nothing is left out within.
    free: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Holds {
    One,
    List,
    Map,
}

const LEAF: Shape = Shape { kept: &[], nested: &[], free: &[] };

const INTERFACE: Shape = Shape { kept: &["url", "protocolBinding", "protocolVersion"], ..LEAF };
const PROVIDER: Shape = Shape { kept: &["url", "organization"], ..LEAF };
const EXTENSION: Shape = Shape { free: &["params"], ..LEAF };
const CAPABILITIES: Shape = Shape {
    kept: &["streaming", "pushNotifications", "extendedAgentCard"],
    nested: &[("extensions", Holds::List, &EXTENSION)],
    ..LEAF
};
const REQUIREMENT: Shape = Shape { nested: &[("schemes", Holds::Map, &LEAF)], ..LEAF };
const SKILL: Shape = Shape {
    kept: &["id", "name", "description", "tags"],
    nested: &[("securityRequirements", Holds::List, &REQUIREMENT)],
    ..LEAF
};
const FLOW: Shape =
    Shape { kept: &["authorizationUrl", "tokenUrl", "deviceAuthorizationUrl", "scopes"], ..LEAF };
const FLOWS: Shape = Shape {
    nested: &[
        ("authorizationCode", Holds::One, &FLOW),
        ("clientCredentials", Holds::One, &FLOW),
        ("deviceCode", Holds::One, &FLOW),
        ("implicit", Holds::One, &FLOW),
        ("password", Holds::One, &FLOW),
    ],
    ..LEAF
};
const SCHEME: Shape = Shape {
    nested: &[
        ("apiKeySecurityScheme", Holds::One, &Shape { kept: &["location", "name"], ..LEAF }),
        ("httpAuthSecurityScheme", Holds::One, &Shape { kept: &["scheme"], ..LEAF }),
        (
            "oauth2SecurityScheme",
            Holds::One,
            &Shape { kept: &["flows"], nested: &[("flows", Holds::One, &FLOWS)], ..LEAF },
        ),
        ("openIdConnectSecurityScheme", Holds::One, &Shape { kept: &["openIdConnectUrl"], ..LEAF }),
        ("mtlsSecurityScheme", Holds::One, &LEAF),
    ],
    ..LEAF
};
const CARD: Shape = Shape {
    kept: &[
        "name",
        "description",
        "supportedInterfaces",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
        "documentationUrl",
        "iconUrl",
    ],
    nested: &[
        ("supportedInterfaces", Holds::List, &INTERFACE),
        ("provider", Holds::One, &PROVIDER),
        ("capabilities", Holds::One, &CAPABILITIES),
        ("securitySchemes", Holds::Map, &SCHEME),
        ("securityRequirements", Holds::List, &REQUIREMENT),
        ("skills", Holds::List, &SKILL),
    ],
    ..LEAF
};

/// `card` without members that hold what they would hold if they were not there.
pub fn without_defaults(card: Value) -> Value {
    strip(card, &CARD)
}

fn strip(value: Value, shape: &Shape) -> Value {
    let Value::Object(members) = value else { return value };
    let mut left = Map::new();
    for (name, value) in members {
        if shape.free.contains(&name.as_str()) {
            left.insert(name, value);
            continue;
        }
        let nested = shape.nested.iter().find(|(nested, _, _)| *nested == name);
        // A message that is set is there, even an empty one.
        let is_message = matches!(nested, Some((_, Holds::One, _)));
        if value.is_null() || is_default(&value) && !is_message && !shape.kept.contains(&name.as_str()) {
            continue;
        }
        let value = match (nested, value) {
            (Some((_, Holds::One, shape)), value) => strip(value, shape),
            (Some((_, Holds::List, shape)), Value::Array(items)) => {
                items.into_iter().map(|item| strip(item, shape)).collect()
            }
            (Some((_, Holds::Map, shape)), Value::Object(entries)) => {
                Value::Object(entries.into_iter().map(|(key, entry)| (key, strip(entry, shape))).collect())
            }
            (_, value) => value,
        };
        left.insert(name, value);
    }
    Value::Object(left)
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
