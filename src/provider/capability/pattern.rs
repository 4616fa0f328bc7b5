//! Patterns of names: `*` matches any text, including none.

/// Returns whether `pattern` matches all of a name. Upper and lower case are equal, and so are
/// separators. Takes O(pattern × name) at worst.
pub fn matches(pattern: &str, name: &str) -> bool {
    matches_with(pattern, name, |byte| FOLDED[usize::from(byte)])
}

/// Returns whether `pattern` matches all of a text, byte by byte. Takes O(pattern × text) at worst.
pub fn matches_exactly(pattern: &str, text: &str) -> bool {
    matches_with(pattern, text, |byte| byte)
}

/// Compares bytes after mapping them with `key`.
fn matches_with(pattern: &str, name: &str, key: impl Fn(u8) -> u8) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The position after the last star, and the end of the text that the star matches so far.
    let mut star = None;
    while let Some(&byte) = name.get(n) {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(&wanted) if key(wanted) == key(byte) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, until)) = star else {
                    return false;
                };
                // A star at the end matches all remaining text.
                let Some(wanted) = pattern.get(after).map(|&byte| key(byte)) else {
                    return true;
                };
                let rest = name.get(until + 1..).unwrap_or_default();
                let Some(skipped) = rest.iter().position(|&byte| key(byte) == wanted) else {
                    return false;
                };
                (p, n) = (after, until + 1 + skipped);
                star = Some((p, n));
            }
        }
    }
    pattern.iter().skip(p).all(|&byte| byte == b'*')
}

/// [`folded`] as a table: each request is compared with all rows of a table of capabilities.
static FOLDED: [u8; 256] = {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = folded(byte as u8);
        byte += 1;
    }
    all
};

/// Makes upper and lower case equal, and all separators: providers spell the same version
/// differently.
const fn folded(byte: u8) -> u8 {
    match byte {
        b'.' | b'_' | b':' | b'@' => b'-',
        _ => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b", "abc", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abced", false),
            ("*ab*ab", "abab", true),
            ("*aab", "aaaaab", true),
            ("a**b", "ab", true),
            ("abc", "ab", false),
            ("Claude-*-4-5*", "claude-sonnet-4.5", true),
            (
                "*claude-*-4-5*",
                "us.anthropic.claude-opus-4-5@20251101",
                true,
            ),
            ("*.example.org", "api.example.org", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
