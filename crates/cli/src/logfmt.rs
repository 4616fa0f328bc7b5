//! The text format of the servers' log: logfmt, one line for each event.
//!
//! A value that comes from a client or an upstream can't add a field or a line, since everything
//! that could end the value is quoted and escaped. The crate `tracing-logfmt` (0.3.7, maintained)
//! doesn't fit: its keys are fixed, the id of a request would share the key `id` with fields of
//! events, and it leaves U+0085 and U+2028, line ends for some readers, unescaped.

use std::fmt::{self, Debug, Display, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The format of lines, and of the fields of spans in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logfmt;

impl<S> FormatEvent<S, Self> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, Self>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut pairs = LogfmtFields::default();
        event.record(&mut pairs);
        writer.write_str("time=")?;
        SystemTime.format_time(&mut writer)?;
        let metadata = event.metadata();
        write!(
            writer,
            " level={} target={} msg={}",
            metadata.level().as_str().to_ascii_lowercase(),
            LogfmtValue(metadata.target()),
            LogfmtValue(&pairs.message)
        )?;
        for span in cx.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<Self>>();
            let fields = fields.map_or("", |fields| fields.as_str());
            // The id of a span has the span's name: `request=…`.
            if let Some(id) = fields.strip_prefix("id=") {
                write!(writer, " {}={id}", span.name())?;
            } else if !fields.is_empty() {
                write!(writer, " {fields}")?;
            }
        }
        writeln!(writer, "{}", pairs.others)
    }
}

impl<'writer> FormatFields<'writer> for Logfmt {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut pairs = LogfmtFields::default();
        fields.record(&mut pairs);
        writer.write_str(pairs.others.trim_start())
    }
}

/// The fields of an event or a span.
#[derive(Debug)]
struct LogfmtFields {
    message: String,
    /// The other fields, formatted, each after a space.
    others: String,
    /// The buffer that values are formatted into before they are escaped.
    value: String,
}

// The line of an answered request has some 350.
/// Bytes that are reserved for the fields of a line.
const TYPICAL_FIELDS: usize = 512;

impl Default for LogfmtFields {
    fn default() -> Self {
        Self {
            message: String::new(),
            others: String::with_capacity(TYPICAL_FIELDS),
            value: String::new(),
        }
    }
}

impl Visit for LogfmtFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Writing to a string can't fail.
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            let _ = write!(self.others, " {field}={}", LogfmtValue(value));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = std::mem::take(&mut self.value);
        text.clear();
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
        self.value = text;
    }
}

/// A value, quoted where a reader could take it for more than one value.
struct LogfmtValue<'a>(&'a str);

impl Display for LogfmtValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_special = |c: char| matches!(c, ' ' | '=' | '"' | '\\') || must_escape(c);
        if !self.0.is_empty() && !self.0.contains(is_special) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                // The escape of JSON, which parsers of logfmt read.
                c if must_escape(c) => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Returns whether a character could end a line, control a terminal, or change the order in which
/// the text is shown. All of them have four hexadecimal digits.
fn must_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing::{info, info_span, subscriber, warn};
    use tracing_subscriber::{fmt::layer, layer::SubscriberExt, registry};

    use super::Logfmt;

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

    /// Returns the written lines from their level on.
    fn lines(log: impl FnOnce()) -> Vec<String> {
        let written = SharedLog::default();
        let writer = written.clone();
        let lines = layer()
            .fmt_fields(Logfmt)
            .event_format(Logfmt)
            .with_writer(move || writer.clone());
        subscriber::with_default(registry().with(lines), log);
        let bytes = written.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        let level = |line: &str| {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.starts_with("time=20") && time.ends_with('Z'), "{line}");
            rest.to_owned()
        };
        text.lines().map(level).collect()
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
            ("x\nlevel=error\r\t", r#""x\nlevel=error\r\t""#),
            (
                "\u{0}\u{1b}[2J\u{7f}\u{85}\u{2028}\u{202e}",
                r#""\u0000\u001b[2J\u007f\u0085\u2028\u202e""#,
            ),
        ] {
            let told = lines(|| {
                let _entered = info_span!("request", id = value).entered();
                warn!(target: "t", text = value, shown = %value, number = 1.5, "{value}");
            });
            let expected = format!(
                "level=warn target=t msg={written} request={written} text={written} shown={written} number=1.5"
            );
            assert_eq!(told, [expected]);
        }
    }

    #[test]
    fn puts_the_fields_of_all_spans_before_those_of_the_event() {
        let told = lines(|| {
            let request = info_span!("request", id = "r-1", trace = tracing::field::Empty);
            request.record("trace", "00ff");
            let _outer = request.entered();
            let _inner = info_span!("call", number = 2).entered();
            let _silent = info_span!("silent").entered();
            info!(target: "t", id = "other", left_out = None::<u32>, "two words");
            info!(target: "t", key = 1);
        });
        let spans = "request=r-1 trace=00ff number=2";
        assert_eq!(
            told,
            [
                format!("level=info target=t msg=\"two words\" {spans} id=other"),
                format!("level=info target=t msg=\"\" {spans} key=1"),
            ]
        );
    }
}
