//! The agent card: one of 0.3 read as one of 1.0, and one of 1.0 with the members that clients of 0.3 need beside its own.

use super::{change, change_each, each, rename, take, taken, within};
use crate::a2a::{
    card::{HTTP_JSON, JSONRPC},
    version::LEGACY_VERSION,
};
use serde_json::{Map, Value, json};

/// The members of 0.3 that a card of 1.0 has not.
const MEMBERS: [&str; 6] = [
    "url",
    "preferredTransport",
    "protocolVersion",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
    "security",
];
/// The members of 0.3's security schemes.
const SCHEME_MEMBERS: [&str; 8] =
    ["type", "description", "in", "name", "scheme", "bearerFormat", "flows", "openIdConnectUrl"];
const METADATA_URL: &str = "oauth2MetadataUrl";
/// 0.3's `type` of a security scheme, and 1.0's member.
const SCHEMES: [(&str, &str); 5] = [
    ("apiKey", "apiKeySecurityScheme"),
    ("http", "httpAuthSecurityScheme"),
    ("oauth2", "oauth2SecurityScheme"),
    ("openIdConnect", "openIdConnectSecurityScheme"),
    ("mutualTLS", "mtlsSecurityScheme"),
];

/// Whether a card is one of 0.3: it names no interfaces of 1.0, and a URL.
pub fn is_v03_card(card: &Value) -> bool {
    let has = |name: &str| card.get(name).is_some_and(|value| !value.is_null());
    has("url") && !has("supportedInterfaces") && !has("supported_interfaces")
}

/// A card of 0.3 as one of 1.0; its interfaces say that they speak 0.3. A skill without tags has its id as one.
pub fn to_v1_card(card: Value) -> Value {
    within(card, |card| {
        let version = take(card, "protocolVersion").unwrap_or_else(|| LEGACY_VERSION.into());
        let preferred = take(card, "preferredTransport").unwrap_or_else(|| JSONRPC.into());
        let mut interfaces = Vec::new();
        let url = take(card, "url").map(|url| (url, preferred));
        let others = match take(card, "additionalInterfaces") {
            Some(Value::Array(others)) => others,
            _ => Vec::new(),
        };
        let others = others.into_iter().map(|mut of| (taken(&mut of, "url"), taken(&mut of, "transport")));
        for (url, binding) in url.into_iter().chain(others) {
            let interface = json!({ "url": url, "protocolBinding": binding, "protocolVersion": version });
            if !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        card.insert("supportedInterfaces".to_owned(), interfaces.into());
        let extended = take(card, "supportsAuthenticatedExtendedCard");
        change(card, "capabilities", |can| {
            within(can, |can| {
                can.remove("stateTransitionHistory");
                if let Some(extended) = extended {
                    can.entry("extendedAgentCard").or_insert(extended);
                }
            })
        });
        change(card, "securitySchemes", |schemes| {
            within(schemes, |schemes| {
                for scheme in schemes.values_mut() {
                    *scheme = scheme_to_v1(scheme.take());
                }
            })
        });
        requirements_to_v1(card);
        change_each(card, "skills", |skill| {
            within(skill, |skill| {
                requirements_to_v1(skill);
                let has_tags =
                    skill.get("tags").and_then(Value::as_array).is_some_and(|tags| !tags.is_empty());
                if let Some(id) = skill.get("id").filter(|_| !has_tags).cloned() {
                    skill.insert("tags".to_owned(), json!([id]));
                }
            })
        });
    })
}

fn scheme_to_v1(scheme: Value) -> Value {
    let Value::Object(mut scheme) = scheme else { return scheme };
    let Some(Value::String(kind)) = take(&mut scheme, "type") else { return Value::Object(scheme) };
    let Some((_, name)) = SCHEMES.into_iter().find(|(of, _)| *of == kind) else {
        return Value::Object(scheme);
    };
    rename(&mut scheme, "in", "location");
    // 1.0 has one flow of OAuth, the first that both know.
    change(&mut scheme, "flows", |flows| {
        let Value::Object(mut flows) = flows else { return flows };
        let known = ["authorizationCode", "clientCredentials", "implicit", "password"];
        let first = known.into_iter().find_map(|name| Some((name.to_owned(), take(&mut flows, name)?)));
        Value::Object(Map::from_iter(first))
    });
    json!({ name: scheme })
}

fn requirements_to_v1(of: &mut Map<String, Value>) {
    let Some(security) = take(of, "security") else { return };
    let requirement = |schemes: Value| {
        json!({ "schemes": within(schemes, |schemes| {
            for scopes in schemes.values_mut() {
                *scopes = json!({ "list": scopes.take() });
            }
        })})
    };
    of.entry("securityRequirements").or_insert(each(security, requirement));
}

/// The finished card of 1.0 with the members of 0.3 beside its own: each interface over JSON-RPC or HTTP+JSON, security, and the
/// extended card. A card without such an interface stays as it is.
pub fn to_hybrid_card(card: Value) -> Value {
    within(card, |card| {
        let interfaces = card.get("supportedInterfaces").and_then(Value::as_array);
        let interfaces: Vec<_> = interfaces.into_iter().flatten().filter_map(interface_to_v03).collect();
        let Some(preferred) = interfaces.first().cloned() else { return };
        card.insert("url".to_owned(), preferred["url"].clone());
        card.insert("preferredTransport".to_owned(), preferred["transport"].clone());
        card.insert("protocolVersion".to_owned(), LEGACY_VERSION.into());
        card.insert("additionalInterfaces".to_owned(), interfaces.into());
        let extended = card.get("capabilities").is_some_and(|can| can["extendedAgentCard"] == true);
        card.insert("supportsAuthenticatedExtendedCard".to_owned(), extended.into());
        change(card, "securitySchemes", |schemes| {
            within(schemes, |schemes| schemes.values_mut().for_each(add_scheme_of_v03))
        });
        add_security_of_v03(card);
        change_each(card, "skills", |skill| within(skill, add_security_of_v03));
    })
}

/// HTTP+JSON of 0.3 adds `/v1` to the URL itself.
fn interface_to_v03(interface: &Value) -> Option<Value> {
    let (url, binding) = (interface["url"].as_str()?, interface["protocolBinding"].as_str()?);
    let has_tenant = interface.get("tenant").is_some_and(|tenant| !tenant.is_null());
    let url = match binding {
        JSONRPC => url,
        HTTP_JSON => url.trim_end_matches('/').strip_suffix("/v1")?,
        _ => return None,
    };
    (!has_tenant).then(|| json!({ "url": url, "transport": binding }))
}

fn add_scheme_of_v03(scheme: &mut Value) {
    let Some(members) = scheme.as_object_mut() else { return };
    let Some((kind, name)) = SCHEMES.into_iter().find(|(_, name)| members.contains_key(*name)) else {
        return;
    };
    let Some(Value::Object(mut flat)) = members.get(name).cloned() else { return };
    rename(&mut flat, "location", "in");
    members.extend(flat);
    members.insert("type".to_owned(), kind.into());
}

fn add_security_of_v03(of: &mut Map<String, Value>) {
    let Some(requirements) = of.get("securityRequirements").cloned() else { return };
    let security = each(requirements, |mut requirement| {
        within(taken(&mut requirement, "schemes"), |schemes| {
            for scopes in schemes.values_mut() {
                let list = taken(scopes, "list");
                *scopes = if list.is_null() { json!([]) } else { list };
            }
        })
    });
    of.insert("security".to_owned(), security);
}

/// A hybrid card without the members of 0.3: what its signature covers. Any other card stays as it is.
pub fn without_v03_members(card: &Value) -> Value {
    if card.get("supportedInterfaces").is_none() {
        return card.clone();
    }
    within(card.clone(), |card| {
        MEMBERS.iter().for_each(|name| drop(card.remove(*name)));
        change(card, "capabilities", |can| within(can, |can| drop(can.remove("stateTransitionHistory"))));
        change(card, "securitySchemes", |schemes| {
            within(schemes, |schemes| {
                schemes.values_mut().for_each(|scheme| *scheme = wrapped(scheme.take()))
            })
        });
        change_each(card, "skills", |skill| within(skill, |skill| drop(skill.remove("security"))));
    })
}

/// A scheme's member of 1.0 alone.
fn wrapped(scheme: Value) -> Value {
    within(scheme, |scheme| {
        if SCHEMES.iter().any(|(_, name)| scheme.contains_key(*name)) {
            SCHEME_MEMBERS.iter().chain([&METADATA_URL]).for_each(|name| drop(scheme.remove(*name)));
        }
    })
}

/// A card of 0.3 as its SDKs sign it: without defaults and without what is empty.
pub fn to_v03_signed(card: &Value) -> Value {
    let card = within(card.clone(), |card| {
        for (name, default) in [("preferredTransport", JSONRPC), ("protocolVersion", LEGACY_VERSION)] {
            if card.get(name).is_some_and(|value| value == default) {
                card.remove(name);
            }
        }
        change(card, "securitySchemes", |schemes| {
            within(schemes, |schemes| {
                let without_type =
                    |scheme: &mut Value| *scheme = within(scheme.take(), |s| drop(s.remove("type")));
                schemes.values_mut().for_each(without_type);
            })
        });
    });
    without_empty(card).unwrap_or_default()
}

fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let left = members.into_iter().filter_map(|(name, value)| Some((name, without_empty(value)?)));
            let left: Map<_, _> = left.collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        Value::Array(items) => {
            let left: Vec<_> = items.into_iter().filter_map(without_empty).collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) => Some(value),
    }
}
