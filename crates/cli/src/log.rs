//! The servers' log on standard error, in the formats of `tracing-subscriber`.

use std::fmt::{self, Debug};
use std::io;

use tracing::field::{Field, Visit};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::{FormatFields, Writer};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use super::console::one_line;
use restitch_proxy::config::LogFormat;

/// A handle that changes the log's filter.
pub(super) type LogHandle = reload::Handle<Targets, Registry>;

/// Starts the log. A process has one: a second start has no effect.
pub(super) fn start(filter: Targets, format: LogFormat) -> LogHandle {
    let (filter, handle) = reload::Layer::new(filter);
    // The span of a request carries its id to each of its lines, whatever lines are wanted.
    let spans =
        filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("restitch"))
            .with_max_level_hint(LevelFilter::INFO);
    let lines = layer().with_writer(io::stderr);
    let lines = match format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        _ => lines.with_ansi(false).fmt_fields(QuotedFields).boxed(),
    };
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter.or(spans)))
        .try_init();
    handle
}

/// Writes fields as `key=value`, the message first and without a key. A value that comes from a
/// client or an upstream can't add a field or a line, since everything that could end the value is
/// quoted and escaped. The formats of `tracing-subscriber` don't escape a displayed value.
#[derive(Debug)]
struct QuotedFields;

impl<'writer> FormatFields<'writer> for QuotedFields {
    fn format_fields<R: tracing_subscriber::field::RecordFields>(
        &self,
        writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut written = WrittenFields {
            writer,
            separator: "",
            result: Ok(()),
        };
        fields.record(&mut written);
        written.result
    }
}

struct WrittenFields<'writer> {
    writer: Writer<'writer>,
    separator: &'static str,
    result: fmt::Result,
}

impl Visit for WrittenFields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let Self {
            writer, separator, ..
        } = self;
        let is_plain =
            |c: char| c.is_alphanumeric() || c.is_ascii_punctuation() && !"\"=\\".contains(c);
        let written = match field.name() {
            "message" => write!(writer, "{separator}{}", one_line(value)),
            key if !value.is_empty() && value.chars().all(is_plain) => {
                write!(writer, "{separator}{key}={value}")
            }
            key => write!(writer, "{separator}{key}={value:?}"),
        };
        self.separator = " ";
        self.result = self.result.and(written);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing::{info_span, subscriber, warn};
    use tracing_subscriber::{fmt::layer, layer::SubscriberExt, registry};

    use super::QuotedFields;

    #[derive(Clone, Default)]
    struct SharedLog(Arc<Mutex<Vec<u8>>>);

    impl io::Write for SharedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            io::Write::write(&mut *written, bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn quotes_a_value_that_is_not_one_plain_word() {
        for (value, written) in [
            ("plain-1.5/é", "plain-1.5/é"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("a=b", "\"a=b\""),
            ("say \"x\"", r#""say \"x\"""#),
            ("C:\\x", r#""C:\\x""#),
            ("x\nERROR t: \r\t", r#""x\nERROR t: \r\t""#),
            (
                "\u{0}\u{1b}[2J\u{7f}\u{85}\u{2028}\u{202e}",
                r#""\0\u{1b}[2J\u{7f}\u{85}\u{2028}\u{202e}""#,
            ),
        ] {
            let log = SharedLog::default();
            let writer = log.clone();
            let lines = layer()
                .with_ansi(false)
                .without_time()
                .fmt_fields(QuotedFields)
                .with_writer(move || writer.clone());
            subscriber::with_default(registry().with(lines), || {
                let _entered = info_span!("request", id = value).entered();
                warn!(target: "t", text = value, shown = %value, number = 1.5, "two words");
            });
            let bytes = log.0.lock().unwrap().clone();
            assert_eq!(
                String::from_utf8(bytes).unwrap(),
                format!(
                    " WARN request{{id={written}}}: t: two words text={written} shown={written} number=1.5\n"
                )
            );
        }
    }
}
