//! Cuts a text into clauses, a clause into phrases, a phrase at its brackets or its colon.

/// Sentences, list items and lines. What stands in brackets stays together.
pub(super) fn clauses(text: &str) -> Vec<String> {
    let mut clauses = vec![String::new()];
    let mut depth = 0_usize;
    let last_closing = text.rfind([')', ']', '}']).unwrap_or(0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let at_end = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let breaks = match c {
            // A list in brackets may go over several lines, if somebody closes them.
            '\n' => depth == 0 || at > last_closing,
            ';' | '!' => depth == 0,
            '.' => depth == 0 && at_end,
            _ => false,
        };
        if breaks {
            depth = 0;
            clauses.push(String::new());
        } else if let Some(clause) = clauses.last_mut() {
            clause.push(if c == '\n' { ' ' } else { c });
        }
    }
    clauses.retain(|clause| !clause.trim().is_empty());
    clauses
}

/// Splits at commas and at "and" outside of brackets.
pub(super) fn phrases(text: &str) -> Vec<String> {
    let mut phrases = vec![String::new()];
    let mut depth = 0_usize;
    for word in text.replace(',', " , ").split_whitespace() {
        let splits = matches!(word.to_lowercase().as_str(), "," | "and" | "und" | "&" | "plus");
        if splits && depth == 0 {
            phrases.push(String::new());
        } else if let Some(phrase) = phrases.last_mut() {
            if !phrase.is_empty() {
                phrase.push(' ');
            }
            phrase.push_str(word);
        }
        depth += word.matches(['(', '[', '{']).count();
        depth = depth.saturating_sub(word.matches([')', ']', '}']).count());
    }
    phrases.retain(|phrase| !phrase.trim().is_empty());
    phrases
}

/// What stands before, in and after the first brackets.
pub(super) fn brackets(phrase: &str) -> Option<(&str, &str, &str)> {
    let open = phrase.find(['(', '[', '{'])?;
    let inner = &phrase[open + 1..];
    let mut depth = 1_usize;
    let close = inner.char_indices().find_map(|(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    let close = close.unwrap_or(inner.len());
    Some((&phrase[..open], &inner[..close], inner.get(close + 1..).unwrap_or_default()))
}

/// The first colon outside of brackets that is no part of a URL.
pub(super) fn outer_colon(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && !text[at..].starts_with("://") => {
                return Some((&text[..at], &text[at + 1..]));
            }
            _ => {}
        }
    }
    // `products - name, price`
    text.split_once(" - ").or_else(|| text.split_once(" – "))
}
