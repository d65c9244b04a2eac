//! Names of models and providers as telemetry shows them: identifiers, and no other text of a brain.

/// The prefixes of the configuration, which name a provider.
const PREFIXES: [&str; 4] = ["anthropic/", "openai/", "gemini/", "ollama/"];
/// The longest name, bytes.
const MAX_NAME: usize = 128;
/// What is shown of a name that is no identifier.
const OTHER: &str = "other";

pub(super) fn request_model(model: &str) -> &str {
    let name = PREFIXES.iter().find_map(|prefix| model.strip_prefix(prefix)).unwrap_or(model);
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@+-".contains(&byte);
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_accepted);
    if is_name { name } else { OTHER }
}

/// The provider; `unknown` if it is not reported.
pub(super) fn provider_name(provider: Option<&str>) -> &str {
    match provider {
        Some(provider) if protocol::usage::is_code(provider) => provider,
        Some(_) => OTHER,
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_prefix_of_the_configuration_and_is_an_identifier() {
        for (model, expected) in [
            ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
            ("ollama/library/qwen3:8b", "library/qwen3:8b"),
            ("meta-llama/Llama-4", "meta-llama/Llama-4"),
            ("my secret is x", "other"),
            ("", "other"),
        ] {
            assert_eq!(request_model(model), expected, "{model}");
        }
        assert_eq!((provider_name(None), provider_name(Some("a b"))), ("unknown", "other"));
    }
}
