//! Removes secrets from the log of calls.

use http::{HeaderMap, HeaderValue};

/// Returns a path without the key that its query may have.
pub(super) fn path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else {
        return path.to_owned();
    };
    let pair = |pair: &str| {
        if pair.starts_with("key=") {
            "key=[redacted]".to_owned()
        } else {
            pair.to_owned()
        }
    };
    let pairs: Vec<String> = query.split('&').map(pair).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// Returns headers without the values that are secret.
pub(super) fn headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for (name, value) in &mut headers {
        if SECRETS.contains(&name.as_str()) {
            *value = HeaderValue::from_static("[redacted]");
        }
    }
    headers
}

/// Headers whose values never reach the log.
const SECRETS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "cookie",
];
