//! Text of agents and people as it is shown: escaped, and with the characters visible that hide or turn other text.

use maud::Render;

/// The most bytes of one text on a page.
pub const MAX_SHOWN: usize = 200_000;

/// A text that somebody else has written.
#[derive(Debug, Clone, Copy)]
pub struct VisibleText<'a>(pub &'a str);

/// A character that is invisible, or that changes the direction or the place of what stands around it.
pub(crate) fn is_deceptive(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || char.is_control() && !matches!(char, '\n' | '\t')
}

/// `text` with such characters written out, cut to [`MAX_SHOWN`].
pub fn visible(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SHOWN);
    let (shown, rest) = text.split_at(end);
    let mut out = String::with_capacity(shown.len());
    for char in shown.chars() {
        match char {
            '\r' => {}
            char if (char as u32) < 0x20 && is_deceptive(char) => {
                out.push(char::from_u32(0x2400 + char as u32).unwrap_or('\u{fffd}'));
            }
            char if is_deceptive(char) => out.push_str(&format!("\u{27e8}U+{:04X}\u{27e9}", char as u32)),
            char => out.push(char),
        }
    }
    if !rest.is_empty() {
        out.push_str(&format!("\n\u{2026} {} more bytes are not shown", rest.len()));
    }
    out
}

/// Whether no character of `text` hides or turns others.
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(is_deceptive)
}

/// The first `most` characters of the first lines, for a heading or a row.
pub fn brief(text: &str, most: usize) -> String {
    let text = text.trim();
    let mut chars = text.chars();
    let cut: String = chars.by_ref().take(most).collect();
    let cut = cut.replace(['\n', '\t'], " ");
    visible(&if chars.next().is_some() { format!("{cut}\u{2026}") } else { cut })
}

impl Render for VisibleText<'_> {
    fn render_to(&self, out: &mut String) {
        visible(self.0).as_str().render_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_can_neither_end_its_element_nor_hide_nor_turn_others() {
        let shown = VisibleText("<script>alert(1)</script>\u{202e}gnp.exe\u{1b}[2J\u{200b}\r\n\"'&")
            .render()
            .into_string();
        assert_eq!(
            shown,
            "&lt;script&gt;alert(1)&lt;/script&gt;\u{27e8}U+202E\u{27e9}gnp.exe\u{241b}[2J\u{27e8}U+200B\u{27e9}\n&quot;'&amp;"
        );
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let shown = visible(&"\u{e9}".repeat(MAX_SHOWN));
        assert!(shown.len() < MAX_SHOWN + 100 && shown.ends_with("more bytes are not shown"));
        assert_eq!(brief("one\ntwo three", 8), "one two \u{2026}");
    }
}
