//! The token of the next page of a task list.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use protocol::a2a::json::InvalidField;
use store::ListPosition;

/// Where a page ended, and the number of tasks on all pages, which is counted for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageToken {
    pub(super) position: ListPosition,
    pub(super) total: u64,
}

impl PageToken {
    pub(super) fn encode(self) -> String {
        let Self { position: ListPosition { at, record }, total } = self;
        URL_SAFE_NO_PAD.encode(format!("{at}|{record}|{total}"))
    }

    pub(super) fn parse(token: &str) -> Result<Self, InvalidField> {
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let mut parts = text.split('|');
            let mut next = || parts.next();
            let (at, record, total) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
            next().is_none().then_some(Self { position: ListPosition { at, record }, total })
        };
        read().ok_or_else(|| InvalidField::new("pageToken", "is none that a page of this list ended with"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_position_and_nothing_else_is_one() {
        let token = PageToken { position: ListPosition { at: -7, record: 9 }, total: 12 };
        assert_eq!(PageToken::parse(&token.encode()).unwrap(), token);
        for text in ["", "x", "1|2", "1|2|3|4", "1|-2|3"] {
            assert!(PageToken::parse(&URL_SAFE_NO_PAD.encode(text)).is_err(), "{text}");
        }
        assert!(PageToken::parse("1|2|3").is_err());
    }
}
