//! Models by name: which provider, which format, which key.

use super::model::TokenUsage;
use crate::outbox::a2a::credentials::SecretString;

/// Where a model is and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The name in the configuration.
    pub model: String,
    pub provider: Provider,
    /// The base of its URLs, without a slash at the end.
    pub url: String,
    /// The key; `None` sends none.
    pub key: Option<SecretString>,
    /// The variable of this process that has the key, if one has.
    pub key_variable: Option<String>,
    /// The most tokens of one answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// The price, if it is known.
    pub price: Option<TokenPrice>,
}

/// Prices per million tokens, in the unit of `bounds.cost`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrice {
    pub input: f64,
    pub output: f64,
}

impl TokenPrice {
    /// The cost of a call.
    #[expect(clippy::cast_precision_loss, reason = "no call has 2^52 tokens")]
    pub fn cost(self, usage: TokenUsage) -> f64 {
        (usage.input as f64 * self.input + usage.output as f64 * self.output) / 1e6
    }
}

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Anthropic,
    /// OpenAI Chat Completions at OpenAI.
    OpenAi,
    /// Gemini by its OpenAI-compatible endpoint.
    Gemini,
    /// Ollama by its OpenAI-compatible endpoint.
    Ollama,
    /// Any other server that speaks OpenAI Chat Completions.
    Compatible,
}

/// The names before the slash.
const NAMES: [(&str, Provider); 4] = [
    ("anthropic", Provider::Anthropic),
    ("openai", Provider::OpenAi),
    ("gemini", Provider::Gemini),
    ("ollama", Provider::Ollama),
];

impl Provider {
    /// The provider and the model's name there. A name without a known provider is one of the server at `url`.
    pub fn of_model(name: &str, has_url: bool) -> Result<(Self, &str), String> {
        let known = name.split_once('/').and_then(|(prefix, model)| {
            let provider = NAMES.iter().find(|(known, _)| *known == prefix)?.1;
            Some((provider, model))
        });
        match known {
            Some((_, "")) => Err(format!("{name:?} names no model after the slash")),
            Some(found) => Ok(found),
            None if has_url && !name.is_empty() => Ok((Self::Compatible, name)),
            None => Err(format!(
                "{name:?} names no known provider; write anthropic/…, openai/…, gemini/… or ollama/…, or `url` beside it for any server that speaks OpenAI's format"
            )),
        }
    }

    /// Its name in OpenTelemetry's GenAI conventions; those have none for the last two.
    pub fn convention_name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gcp.gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "openai_compatible",
        }
    }

    /// Where it is if the configuration does not say.
    pub fn url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/openai",
            Self::Ollama | Self::Compatible => "http://localhost:11434/v1",
        }
    }

    /// The variable in which its own clients look for the key.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Compatible => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_provider_or_is_one_of_the_server_at_the_url() {
        for (name, has_url, expected) in [
            ("anthropic/claude-sonnet-4-5", false, Some((Provider::Anthropic, "claude-sonnet-4-5"))),
            ("openai/gpt-5-mini", true, Some((Provider::OpenAi, "gpt-5-mini"))),
            ("ollama/library/qwen3:8b", false, Some((Provider::Ollama, "library/qwen3:8b"))),
            ("meta-llama/Llama-4", true, Some((Provider::Compatible, "meta-llama/Llama-4"))),
            ("meta-llama/Llama-4", false, None),
            ("gemini/", false, None),
            ("", true, None),
        ] {
            assert_eq!(Provider::of_model(name, has_url).ok(), expected, "{name}");
        }
    }

    #[test]
    fn prices_are_per_million_tokens() {
        let price = TokenPrice { input: 3.0, output: 15.0 };
        let cost = price.cost(TokenUsage { input: 200_000, output: 10_000 });
        assert!((cost - 0.75).abs() < 1e-9, "{cost}");
    }
}
