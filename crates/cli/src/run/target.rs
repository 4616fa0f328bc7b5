//! The target of the calls, its API, and the first request.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use super::{Failure, PromptText, RunArgs, providers};
use restitch::internal::wire::{NewRequest, PlainPrompt};
use restitch::provider::Dialect;
use restitch_http::Upstream;
use restitch_proxy::address;

/// The target of the calls.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) upstream: Upstream,
    pub(super) dialect: Dialect,
}

impl Target {
    /// Returns the target that the arguments name, and the key. The key is empty if none is needed.
    pub(super) fn of(args: &RunArgs) -> Result<(Self, String), Failure> {
        let provider = providers::named(args.provider.as_deref()).map_err(Failure::usage)?;
        let dialect = args
            .dialect
            .or(provider.map(|provider| provider.dialect()))
            .unwrap_or_default();
        let known_url = match &provider {
            None => "",
            Some(provider) => provider.base_url(dialect).ok_or_else(|| {
                let (name, spoken) = (provider.name, provider.dialects());
                Failure::usage(format!(
                    "--dialect {dialect}: {name} does not speak it; it speaks {spoken}"
                ))
            })?,
        };
        // The address is not repeated, since it may have a password.
        let upstream = address::upstream(args.base_url.as_deref().unwrap_or(known_url))
            .map_err(|error| Failure::usage(format!("--base-url: {error}")))?;
        let key = providers::key(
            args.key_variable.as_deref(),
            provider,
            args.base_url.is_none(),
        );
        Ok((Self { upstream, dialect }, key.map_err(Failure::usage)?))
    }

    /// Returns the first request.
    pub(super) fn request(
        &self,
        args: &RunArgs,
        asked: &PromptText,
        key: &str,
    ) -> Result<http::Request<Bytes>, Failure> {
        let prompt = PlainPrompt {
            model: &args.model,
            system: asked.system.as_deref(),
            text: &asked.prompt,
            max_tokens: args.max_tokens,
        };
        let NewRequest {
            path,
            key_header,
            headers,
            body,
        } = self.dialect.wire().new_request(&prompt);
        let mut request = http::Request::post(path).header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        if !key.is_empty() {
            let (name, before) = key_header;
            let mut value = HeaderValue::try_from(format!("{before}{key}")).map_err(|_| {
                Failure::usage("the key has characters that no header may have".to_owned())
            })?;
            value.set_sensitive(true);
            request = request.header(HeaderName::from_static(name), value);
        }
        request.body(Bytes::from(body)).map_err(Failure::io)
    }
}
