//! Separates addresses that hold no credential from others.

/// Returns whether an address, or the content that replaces it, holds no credential: neither a user
/// nor a query of unknown members. Signed addresses have their key there.
pub(super) fn is_plain_content(address: &str) -> bool {
    if address.starts_with("data:") {
        return true;
    }
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let is_plain = |member: &str| {
        let (name, value) = member.split_once('=').unwrap_or((member, ""));
        PLAIN_QUERY.contains(&name) && value.len() <= LONGEST_VALUE
    };
    !address.contains('#')
        && !query.contains(['#', '?'])
        && is_plain_host(address)
        && query
            .split('&')
            .all(|member| member.is_empty() || is_plain(member))
}

/// Returns whether the address of a server holds no credential: it has no user and no query, and
/// its path has words alone. Many servers of tools have a key as a segment of their path.
pub(super) fn is_plain_server(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    !address.contains(['?', '#', '\\', '%'])
        && is_plain_host(address)
        && path.split('/').all(is_word)
}

/// Returns whether an address has no user. An address without a host is refused: some readers skip
/// further slashes, and find a host and a user after them.
fn is_plain_host(address: &str) -> bool {
    let (before, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split('/').next().unwrap_or_default();
    let has_host = before.is_empty() || before.eq_ignore_ascii_case("file") || !host.is_empty();
    has_host && !host.contains('@')
}

/// Returns whether a segment of a path is a word or a version, and not a key.
fn is_word(segment: &str) -> bool {
    let has_digit = segment.bytes().any(|byte| byte.is_ascii_digit());
    segment.len()
        <= if has_digit {
            LONGEST_VERSION
        } else {
            LONGEST_WORD
        }
}

/// Members of the query of an address that select a picture or a film: its size, its format, its
/// moment.
const PLAIN_QUERY: [&str; 14] = [
    "v", "t", "w", "h", "width", "height", "size", "format", "fm", "q", "quality", "fit", "dpr",
    "auto",
];

/// Bytes of the longest value of such a member: an id of a film has 11.
const LONGEST_VALUE: usize = 16;

/// Bytes of the longest segment of a server's path without a digit, and with one. Keys of 64 bits
/// in any alphabet are longer than the second, and a key without a digit is rarely shorter than the
/// first.
const LONGEST_WORD: usize = 20;
const LONGEST_VERSION: usize = 8;

#[cfg(test)]
mod tests {
    use super::{is_plain_content, is_plain_server};

    #[test]
    fn addresses_with_users_and_queries_are_not_plain() {
        for (address, content, server) in [
            ("https://mcp.deepwiki.com/mcp", true, true),
            ("https://tools.example:8443/v1/sse/", true, true),
            ("https://tools.example", true, true),
            ("tools.example", true, true),
            ("https://u:p@tools.example/mcp", false, false),
            ("https://u@tools.example", false, false),
            ("https:///u:p@tools.example/mcp", false, false),
            ("https:u:p@tools.example/mcp", false, false),
            ("https:\\\\u:p@tools.example", false, false),
            ("https://tools.example/mcp?key=k", false, false),
            ("https://tools.example/mcp#token=t", false, false),
            ("https://tools.example/?v=1?key=k", false, false),
            ("https://tools.example/?key", false, false),
            ("https://tools.example/s/ab12cd34ef56/mcp", true, false),
            (
                "https://tools.example/s/abcdefghijklmnopqrstuvwxyz/mcp",
                true,
                false,
            ),
            ("https://tools.example/%61b12/mcp", true, false),
            ("https://i.example/a@2x.png?w=800&h=600", true, false),
            ("https://i.example/a.png?w=0123456789abcdef0", false, false),
            ("data:image/png;base64,AA?#@==", true, false),
            ("AA+/==", true, true),
            ("tools.example/s/ab12cd34ef56", true, false),
        ] {
            assert_eq!(
                (is_plain_content(address), is_plain_server(address)),
                (content, server),
                "{address}"
            );
        }
    }
}
