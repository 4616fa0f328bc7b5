//! Hides the ids of kept answers in logged paths.

use crate::resume::STREAMS;

/// Returns a path with `*` for each segment that may hold the id of a kept answer: an id alone
/// gives access to an answer whose request had no credential. Clients also send ids to paths that
/// the proxy does not serve, so the digits of a segment decide.
pub(super) fn without_ids(path: &str) -> String {
    let streams = STREAMS.trim_matches('/');
    let mut follows_streams = false;
    let mut shown = String::with_capacity(path.len());
    for segment in path.split_inclusive('/') {
        let name = segment.strip_suffix('/').unwrap_or(segment);
        if !name.is_empty() && (follows_streams || may_hold_id(name)) {
            shown.push('*');
            shown.push_str(&segment[name.len()..]);
        } else {
            shown.push_str(segment);
        }
        follows_streams |= name.eq_ignore_ascii_case(streams);
    }
    shown
}

/// Returns whether a segment has many hexadecimal digits in a row, ignoring characters that are
/// neither letters nor digits. So percent-encoding can't hide an id: it removes no digits.
fn may_hold_id(segment: &str) -> bool {
    let mut digits = 0;
    segment
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .any(|byte| {
            digits = if byte.is_ascii_hexdigit() {
                digits + 1
            } else {
                0
            };
            digits >= MANY_DIGITS
        })
}

/// Half of the digits of an id. Fewer logged digits leave more than 64 bits to guess. Dates and
/// versions in model names have up to 12 in a row, so model names stay readable.
const MANY_DIGITS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_hidden_wherever_it_stands() {
        let id = "8c0f2a5b6d1e4f70a1b2c3d4e5f60718";
        for (path, shown) in [
            ("/streams/ID", "/streams/*"),
            ("//streams/ID", "//streams/*"),
            ("/v1/streams/ID", "/v1/streams/*"),
            ("/streams/ID/", "/streams/*/"),
            ("/streams//ID", "/streams//*"),
            ("/Streams/ID,", "/Streams/*"),
            ("/streams/a/ID", "/streams/*/*"),
            ("/streams;id=ID", "/*"),
            ("/ID", "/*"),
            ("/ID/v1/chat/completions", "/*/v1/chat/completions"),
            ("/v1beta/models/xIDx:generateContent", "/v1beta/models/*"),
            ("ID", "*"),
        ] {
            assert_eq!(without_ids(&path.replace("ID", id)), shown);
            assert_eq!(without_ids(&path.replace("ID", &id.to_uppercase())), shown);
            assert_eq!(
                without_ids(&path.replace("ID", "8c0f2a5b-6d1e-4f70-a1b2-c3d4e5f60718")),
                shown
            );
            assert_eq!(
                without_ids(&path.replace("ID", "%38c0f2a5b%36d1e4f70%61")),
                shown
            );
            assert_eq!(
                without_ids(&path.replace("ID", "%2538%2563%2530%2566%2532%2561%2535%2562%2536")),
                shown
            );
            assert_eq!(without_ids(&path.replace("ID", &id[..20])), shown);
        }
    }

    #[test]
    fn the_paths_of_apis_are_shown() {
        for path in [
            "",
            "*",
            "/",
            "/healthz",
            "/streams/",
            "/v1/chat/completions",
            "/v1/responses/resp_68a1/cancel",
            "/openai/deployments/gpt-4o-2024-08-06/chat/completions",
            "/v1beta/models/gemini-2.5-flash-preview-05-20:streamGenerateContent",
            "/model/anthropic.claude-3-5-sonnet-20240620-v1:0/invoke",
            "/v1/models/facade/é",
            "/..%2fx",
            "/v1/files/%D0%BE%D0%B4.json",
        ] {
            assert_eq!(without_ids(path), path);
        }
    }
}
