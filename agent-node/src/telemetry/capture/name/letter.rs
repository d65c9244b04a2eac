//! Letters that look like others: bold, circled, wide, small, Cyrillic.

use super::has_stem;

/// The letter that is meant, in lower case as far as it can be seen from one; none if there is none to be seen.
pub(super) fn folded(char: char) -> Option<char> {
    match char {
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{300}'..='\u{36f}' => None,
        // What Turkish has for an i, which is two letters in lower case.
        'İ' | 'ı' => Some('i'),
        '\u{1d400}'..='\u{1d6a3}' => letter((u32::from(char) - 0x1d400) % 26),
        '\u{24b6}'..='\u{24e9}' => letter((u32::from(char) - 0x24b6) % 26),
        'ᴀ' | 'ᴄ' | 'ᴅ' | 'ᴇ' | 'ɪ' | 'ᴋ' | 'ɴ' | 'ᴏ' | 'ᴘ' | 'ʀ' | 'ꜱ' | 'ᴛ' | 'ᴡ' => {
            "ᴀᴄᴅᴇɪᴋɴᴏᴘʀꜱᴛᴡ"
                .chars()
                .zip("acdeiknoprstw".chars())
                .find(|(small, _)| *small == char)
                .map(|(_, plain)| plain)
        }
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(char) - 0xfee0),
        char => Some(char),
    }
}

fn letter(number: u32) -> Option<char> {
    char::from_u32(u32::from('a') + number)
}

/// Whether a word of `text` is of Latin letters and of Cyrillic ones that look like some, and names a credential.
pub(super) fn is_mixed(text: &str) -> bool {
    let plain = |char: char| {
        let known = "аеосрухіѕԁкһӏԝј".chars().zip("aeocpyxisdkhlwj".chars());
        known
            .into_iter()
            .find(|(alike, _)| *alike == char)
            .map_or(char.to_ascii_lowercase(), |(_, plain)| plain)
    };
    let mut words = text.split(|char: char| !char.is_alphabetic());
    words.any(|word| {
        !word.is_ascii()
            && word.bytes().any(|byte| byte.is_ascii())
            && has_stem(&word.chars().map(plain).collect::<String>())
    })
}
