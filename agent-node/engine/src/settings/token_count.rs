//! A number of tokens: `200000`, `200k`, `1.5M`.

use serde::Deserialize;

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TokenCountForm")]
pub struct TokenCount(pub u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenCountForm {
    Number(u64),
    Text(String),
    Other(serde::de::IgnoredAny),
}

impl TryFrom<TokenCountForm> for TokenCount {
    type Error = String;
    fn try_from(form: TokenCountForm) -> Result<Self, String> {
        match form {
            TokenCountForm::Number(number) => Ok(Self(number)),
            TokenCountForm::Text(text) => text.try_into(),
            TokenCountForm::Other(_) => {
                Err("must be a number of tokens, such as 200000, 200k or 1.5M".to_owned())
            }
        }
    }
}

impl TryFrom<String> for TokenCount {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("must be a number of tokens, such as 200000, 200k or 1.5M, got {text:?}");
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1e3),
            None => text.strip_suffix('M').map_or((text.as_str(), 1.0), |digits| (digits, 1e6)),
        };
        let number = digits.trim().parse::<f64>().map_err(|_| bad())? * unit;
        match (1.0..=1e15).contains(&number) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
            true => Ok(Self(number.round() as u64)),
            false => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_tokens_may_have_a_unit() {
        let read = |text: &str| serde_json::from_str::<TokenCount>(text).map(|count| count.0);
        for (text, count) in [("5000", 5_000), ("\"200k\"", 200_000), ("\"1.5M\"", 1_500_000), ("\"7\"", 7)] {
            assert_eq!(read(text).unwrap(), count, "{text}");
        }
        for text in ["\"many\"", "\"-1k\"", "\"0\"", "\"2G\"", "-5"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
