//! Members that say no more than their absence would (A2A §8.4.1): proto3 leaves them out, and so does a signer.

use serde_json::{Map, Value};

/// The shape of a message of the card: the members that stay even with default values, and those that hold messages.
struct MessageShape {
    /// REQUIRED members, and `optional` ones, which mean something even when they hold a default.
    kept: &'static [&'static str],
    /// Members that hold a message, a list of them, or a map to them.
    nested: &'static [(&'static str, Multiplicity, &'static MessageShape)],
    /// Members that are the sender's own: nothing is left out within.
    free: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Multiplicity {
    One,
    List,
    Map,
}

const LEAF: MessageShape = MessageShape { kept: &[], nested: &[], free: &[] };

const INTERFACE: MessageShape = MessageShape { kept: &["url", "protocolBinding", "protocolVersion"], ..LEAF };
const PROVIDER: MessageShape = MessageShape { kept: &["url", "organization"], ..LEAF };
const EXTENSION: MessageShape = MessageShape { free: &["params"], ..LEAF };
const CAPABILITIES: MessageShape = MessageShape {
    kept: &["streaming", "pushNotifications", "extendedAgentCard"],
    nested: &[("extensions", Multiplicity::List, &EXTENSION)],
    ..LEAF
};
const REQUIREMENT: MessageShape = MessageShape { nested: &[("schemes", Multiplicity::Map, &LEAF)], ..LEAF };
const SKILL: MessageShape = MessageShape {
    kept: &["id", "name", "description", "tags"],
    nested: &[("securityRequirements", Multiplicity::List, &REQUIREMENT)],
    ..LEAF
};
const FLOW: MessageShape =
    MessageShape { kept: &["authorizationUrl", "tokenUrl", "deviceAuthorizationUrl", "scopes"], ..LEAF };
const FLOWS: MessageShape = MessageShape {
    nested: &[
        ("authorizationCode", Multiplicity::One, &FLOW),
        ("clientCredentials", Multiplicity::One, &FLOW),
        ("deviceCode", Multiplicity::One, &FLOW),
        ("implicit", Multiplicity::One, &FLOW),
        ("password", Multiplicity::One, &FLOW),
    ],
    ..LEAF
};
const SCHEME: MessageShape = MessageShape {
    nested: &[
        ("apiKeySecurityScheme", Multiplicity::One, &MessageShape { kept: &["location", "name"], ..LEAF }),
        ("httpAuthSecurityScheme", Multiplicity::One, &MessageShape { kept: &["scheme"], ..LEAF }),
        (
            "oauth2SecurityScheme",
            Multiplicity::One,
            &MessageShape { kept: &["flows"], nested: &[("flows", Multiplicity::One, &FLOWS)], ..LEAF },
        ),
        (
            "openIdConnectSecurityScheme",
            Multiplicity::One,
            &MessageShape { kept: &["openIdConnectUrl"], ..LEAF },
        ),
        ("mtlsSecurityScheme", Multiplicity::One, &LEAF),
    ],
    ..LEAF
};
const CARD: MessageShape = MessageShape {
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
        ("supportedInterfaces", Multiplicity::List, &INTERFACE),
        ("provider", Multiplicity::One, &PROVIDER),
        ("capabilities", Multiplicity::One, &CAPABILITIES),
        ("securitySchemes", Multiplicity::Map, &SCHEME),
        ("securityRequirements", Multiplicity::List, &REQUIREMENT),
        ("skills", Multiplicity::List, &SKILL),
    ],
    ..LEAF
};

/// `card` without members that hold what they would hold if they were not there.
pub fn without_defaults(card: Value) -> Value {
    strip(card, &CARD)
}

fn strip(value: Value, shape: &MessageShape) -> Value {
    let Value::Object(members) = value else { return value };
    let mut left = Map::new();
    for (name, value) in members {
        if shape.free.contains(&name.as_str()) {
            left.insert(name, value);
            continue;
        }
        let nested = shape.nested.iter().find(|(nested, _, _)| *nested == name);
        // A message that is set is there, even an empty one.
        let is_message = matches!(nested, Some((_, Multiplicity::One, _)));
        if value.is_null() || is_default(&value) && !is_message && !shape.kept.contains(&name.as_str()) {
            continue;
        }
        let value = match (nested, value) {
            (Some((_, Multiplicity::One, shape)), value) => strip(value, shape),
            (Some((_, Multiplicity::List, shape)), Value::Array(items)) => {
                items.into_iter().map(|item| strip(item, shape)).collect()
            }
            (Some((_, Multiplicity::Map, shape)), Value::Object(entries)) => {
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
