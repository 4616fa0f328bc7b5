//! The filter of the servers' log.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

/// Lets lines through by their module and level. The spans of requests are there whatever the level
/// is: they carry the id of a request to each of its lines.
#[derive(Clone, Debug)]
pub(super) struct LogFilter(pub(super) Targets);

/// A handle that changes the log's filter.
pub(super) type LogHandle = reload::Handle<LogFilter, Registry>;

impl<S: Subscriber> Layer<S> for LogFilter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_request(metadata) {
            Interest::always()
        } else {
            Layer::<S>::register_callsite(&self.0, metadata)
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, cx: Context<'_, S>) -> bool {
        is_request(metadata) || self.0.enabled(metadata, cx)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let lines = Layer::<S>::max_level_hint(&self.0);
        lines.map(|lines| {
            if lines == LevelFilter::OFF {
                lines
            } else {
                lines.max(LevelFilter::INFO)
            }
        })
    }
}

fn is_request(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("restitch")
}
