//! Validation of a foreign agent's card: all its faults, or the interfaces that can be used (A2A §8.3, §5.2, §18 of our checklist).

mod unreadable;

use super::{
    card::{AgentCard, AgentInterface, AgentSkill, GRPC},
    json::FromProtoJson,
    v03,
    version::{ProtocolVersion, VERSION},
};
use serde_json::Value;
use std::collections::BTreeSet;
use unreadable::member;

/// The largest card that is read, bytes.
pub const MAX_CARD_BYTES: usize = 1 << 20;
/// The most skills that are read.
pub const MAX_SKILLS: usize = 512;

const REQUIRED: &[&str] = &[
    "name",
    "description",
    "supportedInterfaces",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

/// A valid card.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedCard {
    pub card: AgentCard,
    /// The interfaces that can be used, the agent's preferred one first; at least one. Those of A2A 0.3, and of the others those
    /// over gRPC, only where there is no other.
    pub interfaces: Vec<AgentInterface>,
}

/// The extensions and bindings that the client supports.
#[derive(Debug, Clone, Copy)]
pub struct ClientProtocols<'a> {
    pub extensions: &'a [&'a str],
    pub bindings: &'a [&'a str],
}

/// The card in `raw`, of 1.0 or of 0.3, or all its errors. `refuses` returns why a URL must not be called.
pub fn validate(
    raw: &Value,
    spoken: ClientProtocols,
    refuses: &dyn Fn(&str) -> Option<String>,
) -> Result<ValidatedCard, Vec<String>> {
    if !raw.is_object() {
        return Err(vec!["the card is no JSON object".to_owned()]);
    }
    let unfit = |interface: &AgentInterface| {
        let why = why_not(interface, spoken.bindings, refuses);
        let of = || format!("{} at {:?}", interface.protocol_binding, interface.url);
        (!why.is_empty()).then(|| format!("{}: {}", of(), why.join(", ")))
    };
    let translated = v03::is_v03_card(raw).then(|| v03::to_v1_card(raw.clone()));
    let raw = translated.as_ref().unwrap_or(raw);
    let missing = REQUIRED.iter().filter(|name| member(raw, name).is_none());
    let mut against: Vec<_> = missing.map(|name| format!("{name} is missing")).collect();
    let card = match AgentCard::from_proto(raw.clone()) {
        Ok(card) => card,
        Err(invalid) => {
            let is_new = |why: &String| !against.contains(why);
            let more: Vec<_> = unreadable::reasons(raw, &invalid, unfit).into_iter().filter(is_new).collect();
            let is_said = |why: &&String| {
                against.iter().any(|said| said.split(' ').next() == why.split([' ', ':']).next())
            };
            let more: Vec<_> = more.iter().filter(|why| !is_said(why)).cloned().collect();
            against.extend(more);
            return Err(against);
        }
    };
    for (name, text) in [("name", &card.name), ("version", &card.version)] {
        if text.trim().is_empty() {
            against.push(format!("{name} is empty"));
        }
    }
    against.extend(skills(&card.skills));
    for (name, modes) in
        [("defaultInputModes", &card.default_input_modes), ("defaultOutputModes", &card.default_output_modes)]
    {
        against.extend(
            modes
                .iter()
                .filter(|mode| !is_media_type(mode))
                .map(|mode| format!("{name}: {mode:?} is no media type")),
        );
    }
    for requirement in card.security_requirements.iter().flat_map(|requirement| requirement.schemes.keys()) {
        if !card.security_schemes.contains_key(requirement) {
            against.push(format!(
                "securityRequirements names {requirement:?}, which securitySchemes does not have"
            ));
        }
    }
    for extension in card.capabilities.extensions.iter().filter(|extension| extension.required) {
        if !spoken.extensions.contains(&extension.uri.as_str()) {
            against.push(format!("it requires the extension {}, which is not done here", extension.uri));
        }
    }
    let mut interfaces = Vec::new();
    let mut unusable = Vec::new();
    for interface in &card.supported_interfaces {
        match unfit(interface) {
            None => interfaces.push(interface.clone()),
            Some(why) => unusable.push(why),
        }
    }
    for is_preferred in [
        |interface: &AgentInterface| interface.version() != Some(ProtocolVersion::V03),
        |interface: &AgentInterface| interface.protocol_binding != GRPC,
    ] {
        if interfaces.iter().any(is_preferred) {
            interfaces.retain(is_preferred);
        }
    }
    if interfaces.is_empty() {
        against.push(format!("no interface can be used: {}", unusable.join("; ")));
    }
    if against.is_empty() { Ok(ValidatedCard { card, interfaces }) } else { Err(against) }
}

fn skills(skills: &[AgentSkill]) -> Vec<String> {
    let mut against = Vec::new();
    if skills.len() > MAX_SKILLS {
        against.push(format!("it has {} skills, the limit is {MAX_SKILLS}", skills.len()));
    }
    let mut seen = BTreeSet::new();
    for (at, skill) in skills.iter().enumerate() {
        if skill.id.trim().is_empty() {
            against.push(format!("skills[{at}].id is empty"));
        } else if !seen.insert(&skill.id) {
            against.push(format!("skills[{at}].id {:?} is there twice", skill.id));
        }
        let modes = skill.input_modes.iter().chain(&skill.output_modes);
        against.extend(
            modes
                .filter(|mode| !is_media_type(mode))
                .map(|mode| format!("skills[{at}]: {mode:?} is no media type")),
        );
    }
    against
}

fn why_not(
    interface: &AgentInterface,
    bindings: &[&str],
    refuses: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut against = Vec::new();
    if !bindings.contains(&interface.protocol_binding.as_str()) {
        against.push("the binding is not spoken here".to_owned());
    }
    match interface.version() {
        None => against.push(format!(
            "version {:?} is not spoken here, {VERSION} and 0.3 are",
            interface.protocol_version
        )),
        Some(ProtocolVersion::V03) if interface.protocol_binding == GRPC => {
            against.push("version 0.3 is spoken over JSON-RPC and HTTP+JSON only".to_owned());
        }
        Some(_) => {}
    }
    let rest = interface.url.strip_prefix("https://").or_else(|| interface.url.strip_prefix("http://"));
    let is_bare = interface.protocol_binding == GRPC && !interface.url.contains("://");
    let rest = rest.or(is_bare.then_some(interface.url.as_str()));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    against.extend(match host {
        None => Some("the url is not absolute, or neither https nor http".to_owned()),
        Some("") => Some("the url has no host".to_owned()),
        Some(host) if host.contains('@') => Some("the url carries credentials".to_owned()),
        Some(_) => refuses(&interface.url),
    });
    against
}

fn is_media_type(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+*".contains(c))
    };
    let plain = text.split(';').next().unwrap_or_default().trim();
    // Old kits write a bare `text`; it is understood.
    plain == "text"
        || plain.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

impl ValidatedCard {
    /// The skill of that id.
    pub fn skill(&self, id: &str) -> Option<&AgentSkill> {
        self.card.skills.iter().find(|skill| skill.id == id)
    }

    /// Media types that `skill` takes.
    pub fn input_modes<'a>(&'a self, skill: Option<&'a AgentSkill>) -> &'a [String] {
        skill
            .map(|skill| &skill.input_modes)
            .filter(|m| !m.is_empty())
            .unwrap_or(&self.card.default_input_modes)
    }

    /// Media types that one skill or another takes.
    pub fn all_input_modes(&self) -> Vec<String> {
        let of_skills = self.card.skills.iter().flat_map(|skill| &skill.input_modes);
        let all: BTreeSet<_> = self.card.default_input_modes.iter().chain(of_skills).cloned().collect();
        all.into_iter().collect()
    }

    /// Media types that one skill or another answers in.
    pub fn all_output_modes(&self) -> Vec<String> {
        let of_skills = self.card.skills.iter().flat_map(|skill| &skill.output_modes);
        let all: BTreeSet<_> = self.card.default_output_modes.iter().chain(of_skills).cloned().collect();
        all.into_iter().collect()
    }

    /// Media types that `skill` answers in.
    pub fn output_modes<'a>(&'a self, skill: Option<&'a AgentSkill>) -> &'a [String] {
        skill
            .map(|skill| &skill.output_modes)
            .filter(|m| !m.is_empty())
            .unwrap_or(&self.card.default_output_modes)
    }
}

/// Whether `wanted` (`text/plain`, `text/*`, `*/*`) and one of `offered` can mean the same type.
pub fn fits(wanted: &str, offered: &[String]) -> bool {
    fn halves(mode: &str) -> (&str, &str) {
        let plain = mode.split(';').next().unwrap_or_default().trim();
        plain.split_once('/').unwrap_or((plain, "*"))
    }
    let (kind, subtype) = halves(wanted);
    offered.iter().map(|mode| halves(mode)).any(|(a, b)| {
        let same = |x: &str, y: &str| x == "*" || y == "*" || x.eq_ignore_ascii_case(y);
        same(kind, a) && same(subtype, b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::card::{HTTP_JSON, JSONRPC};
    use serde_json::json;

    const SPOKEN: ClientProtocols = ClientProtocols { extensions: &[], bindings: &[JSONRPC, HTTP_JSON] };

    fn validate(raw: &Value, spoken: ClientProtocols) -> Result<ValidatedCard, Vec<String>> {
        super::validate(raw, spoken, &|url| url.contains("10.0.0.").then(|| "it is private".to_owned()))
    }

    fn card() -> Value {
        json!({
            "name": "WeatherBot", "description": "Forecasts", "version": "1",
            "supportedInterfaces": [
                { "url": "w.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
                { "url": "https://w.example/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t" },
                { "url": "https://w.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            ],
            "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["application/json"],
            "skills": [{ "id": "get_forecast", "name": "Forecast", "description": "d", "tags": ["weather"] }],
        })
    }

    #[test]
    fn the_first_interface_that_can_be_used_is_preferred() {
        let vetted = validate(&card(), SPOKEN).unwrap();
        let urls: Vec<_> = vetted.interfaces.iter().map(|interface| interface.url.as_str()).collect();
        assert_eq!(urls, ["https://w.example/v1", "https://w.example/rpc"]);
        assert_eq!(vetted.interfaces[0].tenant.as_deref(), Some("t"));
    }

    #[test]
    fn grpc_is_used_where_there_is_nothing_else() {
        let spoken = ClientProtocols { bindings: &[JSONRPC, HTTP_JSON, GRPC], ..SPOKEN };
        assert_eq!(validate(&card(), spoken).unwrap().interfaces.len(), 2);
        let mut only = card();
        only["supportedInterfaces"].as_array_mut().unwrap().truncate(1);
        assert_eq!(validate(&only, spoken).unwrap().interfaces[0].url, "w.example:443");
        assert!(validate(&only, SPOKEN).unwrap_err().join("|").contains("not spoken here"));
    }

    #[test]
    fn a_card_of_0_3_is_used_and_1_0_is_preferred() {
        let spoken = ClientProtocols { bindings: &[JSONRPC, HTTP_JSON, GRPC], ..SPOKEN };
        let old = json!({
            "name": "Old", "description": "From before", "version": "1", "url": "https://old.example/rpc",
            "additionalInterfaces": [
                { "url": "https://old.example/rpc", "transport": "JSONRPC" },
                { "url": "https://old.example/rest", "transport": "HTTP+JSON" },
                { "url": "old.example:443", "transport": "GRPC" },
            ],
            "capabilities": { "streaming": true, "stateTransitionHistory": false },
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-Key" } }, "security": [{ "key": [] }],
            "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
            "skills": [{ "id": "a", "name": "A", "description": "d", "tags": [] }],
        });
        let read = validate(&old, spoken).unwrap();
        let urls: Vec<_> = read.interfaces.iter().map(|interface| interface.url.as_str()).collect();
        assert_eq!(urls, ["https://old.example/rpc", "https://old.example/rest"]);
        assert_eq!(read.card.skills[0].tags, ["a"]);
        assert!(read.card.security_schemes.contains_key("key"));

        let mut both = card();
        let is_old =
            |at: usize, card: &mut Value| card["supportedInterfaces"][at]["protocolVersion"] = json!("0.3");
        is_old(1, &mut both);
        assert_eq!(validate(&both, spoken).unwrap().interfaces[0].url, "https://w.example/rpc");
        is_old(2, &mut both);
        assert_eq!(validate(&both, spoken).unwrap().interfaces[0].url, "w.example:443", "1.0 over gRPC");
        is_old(0, &mut both);
        assert_eq!(validate(&both, spoken).unwrap().interfaces.len(), 2);
    }

    #[test]
    fn every_reason_against_a_card_is_given() {
        let against = validate(&json!({ "name": "x" }), SPOKEN).unwrap_err();
        assert_eq!(against.len(), REQUIRED.len() - 1, "{against:?}");
        let with = |path: &str, value: Value| {
            let mut card = card();
            *card.pointer_mut(path).unwrap() = value;
            validate(&card, SPOKEN).unwrap_err().join("|")
        };
        for (path, value, part) in [
            ("/name", json!(" "), "name is empty"),
            ("/name", json!(7), "name"),
            ("/skills", json!([]), "skills"),
            ("/skills/0/id", json!(" "), "skills[0].id is empty"),
            ("/skills/0/tags", json!([]), "skills[0].tags"),
            ("/defaultInputModes", json!(["words"]), "\"words\" is no media type"),
            ("/supportedInterfaces/0", json!(3), "supportedInterfaces[0]"),
            (
                "/capabilities",
                json!({ "extensions": [{ "uri": "urn:x", "required": true }] }),
                "requires the extension urn:x",
            ),
            (
                "/supportedInterfaces",
                json!([{ "url": "ftp://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]),
                "neither https nor http",
            ),
            (
                "/supportedInterfaces",
                json!([{ "url": "https://u:p@x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]),
                "carries credentials",
            ),
            (
                "/supportedInterfaces",
                json!([{ "url": "https://x/", "protocolBinding": "JSONRPC", "protocolVersion": "0.1" }]),
                "version \"0.1\"",
            ),
            (
                "/supportedInterfaces",
                json!([{ "url": "https://x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.1" }]),
                "version \"1.1\"",
            ),
            (
                "/supportedInterfaces",
                json!([{ "url": "https://10.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]),
                "it is private",
            ),
        ] {
            let against = with(path, value.clone());
            assert!(against.contains(part), "{path} = {value}: {against}");
        }
        assert!(validate(&json!([]), SPOKEN).is_err());
    }

    #[test]
    fn no_reason_hides_behind_another() {
        let raw = json!({
            "name": "", "skills": [{ "id": "" }],
            "supportedInterfaces": [{ "url": "ftp://x", "protocolBinding": "X", "protocolVersion": "9" }],
        });
        let against = validate(&raw, SPOKEN).unwrap_err();
        let all = against.join("|");
        for part in [
            "name is empty",
            "description is missing",
            "version is missing",
            "capabilities is missing",
            "defaultInputModes is missing",
            "skills[0].id is empty",
            "skills[0].name is missing",
            "skills[0].tags is missing",
            "the binding is not spoken here",
            "version \"9\" is not spoken here",
            "neither https nor http",
        ] {
            assert!(all.contains(part), "{part}: {against:?}");
        }
        let once: BTreeSet<_> = against.iter().collect();
        assert_eq!(once.len(), against.len(), "{against:?}");
        let mut one_of_two = card();
        one_of_two["supportedInterfaces"][1]["url"] = json!("https://10.0.0.9/v1");
        assert_eq!(validate(&one_of_two, SPOKEN).unwrap().interfaces.len(), 1);
    }

    #[test]
    fn media_types_fit_as_http_says() {
        let offered = ["text/plain".to_owned(), "application/json; charset=utf-8".to_owned()];
        for (wanted, is) in [
            ("text/plain", true),
            ("text/*", true),
            ("*/*", true),
            ("application/JSON", true),
            ("image/png", false),
            ("text", true),
        ] {
            assert_eq!(fits(wanted, &offered), is, "{wanted}");
        }
    }
}
