//! Binds a kept answer to the credential of its caller, by digests.

use std::hash::{BuildHasher, RandomState};

use http::HeaderMap;
use ring::digest::{Context, SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tracing::Span;

use crate::access::{API_KEYS, ClientToken, QUERY_KEY};
use crate::allowed::values;
use crate::store::{AnswerId, Name, Owner};

/// The credential of a request: the headers and the query parameter in which clients send the key
/// of an API, and the name of the client's token. It excludes the token itself, which may be
/// replaced while an answer is kept, and cookies, which change between requests and may not be
/// secret.
#[derive(Clone)]
pub(super) struct Credential(Vec<u8>);

impl Credential {
    pub(super) fn of(
        headers: &HeaderMap,
        query: Option<&str>,
        token: Option<&ClientToken>,
    ) -> Self {
        let mut parts = Vec::new();
        let mut add = |name: &str, value: &[u8]| {
            parts.extend_from_slice(name.as_bytes());
            parts.extend_from_slice(&value.len().to_be_bytes());
            parts.extend_from_slice(value);
        };
        for name in &API_KEYS {
            for value in headers
                .get_all(name)
                .into_iter()
                .filter(|value| holds_key(value.as_bytes()))
            {
                add(name.as_str(), value.as_bytes());
            }
        }
        for key in values(query, QUERY_KEY).filter(|key| !key.is_empty()) {
            add(QUERY_KEY, key.as_bytes());
        }
        if let Some(token) = token {
            add(TOKEN, token.name.as_bytes());
        }
        Self(parts)
    }

    /// Returns a digest of the credential that is valid for one answer only, so that digests of two
    /// answers can't be compared.
    pub(super) fn digest(&self, id: AnswerId) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &id.0);
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&key, &self.0).as_ref());
        digest
    }

    /// Returns the owner whose share the answers of this credential use. All requests without a
    /// credential have the same owner.
    pub(super) fn owner(&self, keys: &RandomState) -> Owner {
        Owner(keys.hash_one(&self.0))
    }

    /// Returns whether a digest is that of this credential. Compares in constant time.
    pub(super) fn is_of(&self, id: AnswerId, digest: &[u8; 32]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &id.0);
        hmac::verify(&key, &self.0, digest).is_ok()
    }

    /// Returns a name by which only this caller can find an answer. `None`: the request has no
    /// credential, so the proxy can't tell its caller from others.
    pub(super) fn name(&self, parts: &[&[u8]]) -> Option<Name> {
        if self.0.is_empty() {
            return None;
        }
        let mut context = Context::new(&SHA256);
        for part in [&self.0[..]].iter().chain(parts) {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
        let mut name = [0; 32];
        name.copy_from_slice(context.finish().as_ref());
        Some(Name(name))
    }
}

/// Names an answer in the lines of the current request. The name is a hash, since the id alone gives
/// access to an answer whose request had no credential.
pub(super) fn name_in_log(id: AnswerId, span: &Span) {
    let hash = digest(&SHA256, &id.0);
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    span.record("answer", format!("{:016x}", u64::from_be_bytes(first)));
}

/// Returns a new id. `None`: the system has no random bits.
pub(super) fn new_id() -> Option<AnswerId> {
    let mut id = [0; 16];
    SystemRandom::new().fill(&mut id).ok()?;
    Some(AnswerId(id))
}

/// Returns whether a header's value is more than the scheme: clients without a key send `Bearer`
/// alone, or an empty value.
fn holds_key(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    !value.is_empty() && !value.eq_ignore_ascii_case(b"bearer")
}

/// Stands for the name of a token. No header has it.
const TOKEN: &str = "token name";

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn credential(name: &'static str, value: &'static str, query: Option<&str>) -> Credential {
        let headers = [(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )]
        .into_iter()
        .collect();
        Credential::of(&headers, query, None)
    }

    #[test]
    fn answers_of_two_tokens_have_two_callers() {
        let of = |name: &str| {
            let token = ClientToken {
                name: name.into(),
                header: HeaderName::from_static("x-restitch-token"),
            };
            Credential::of(&HeaderMap::new(), None, Some(&token))
        };
        let id = AnswerId([1; 16]);
        let digest = of("team-a").digest(id);
        assert!(of("team-a").is_of(id, &digest));
        assert!(!of("team-b").is_of(id, &digest));
        assert!(!credential("x-none", "", None).is_of(id, &digest));
        assert_ne!(of("team-a").name(&[b"x"]), of("team-b").name(&[b"x"]));
    }

    #[test]
    fn a_digest_is_of_one_credential_and_one_answer() {
        let (a, b) = (AnswerId([1; 16]), AnswerId([2; 16]));
        let own = credential("authorization", "Bearer sk-1", None);
        let digest = own.digest(a);
        assert!(own.is_of(a, &digest));
        assert!(!own.is_of(b, &digest));
        for other in [
            credential("authorization", "Bearer sk-2", None),
            credential("x-api-key", "Bearer sk-1", None),
            credential("authorization", "Bearer sk-1", Some("a=1&key=2")),
            credential("x-none", "", None),
        ] {
            assert!(!other.is_of(a, &digest));
            assert_ne!(other.name(&[b"x"]), own.name(&[b"x"]));
        }
        assert!(credential("authorization", "Bearer sk-1", Some("a=1&offset=2")).is_of(a, &digest));
        assert_ne!(own.name(&[b"ab", b"c"]), own.name(&[b"a", b"bc"]));
    }

    #[test]
    fn a_request_without_a_credential_has_no_name() {
        for none in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
            for value in ["", " ", "Bearer", "bearer "] {
                assert_eq!(
                    credential(none, value, Some("key=&a=1")).name(&[b"x"]),
                    None,
                    "{none}: {value:?}"
                );
            }
        }
        for none in ["cookie", "proxy-authorization", "x-none"] {
            assert_eq!(
                credential(none, "Bearer sk-1", None).name(&[b"x"]),
                None,
                "{none}"
            );
        }
        assert_ne!(credential("x-none", "", Some("key=1")).name(&[b"x"]), None);
    }

    #[test]
    fn ids_differ() {
        assert_ne!(new_id().unwrap(), new_id().unwrap());
    }
}
