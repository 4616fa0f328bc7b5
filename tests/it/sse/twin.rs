//! The decoder's slow twin: the standard's algorithm over a whole stream, step by step, without
//! regard to speed.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use crate::fuzz::sse::{Record, Seen};

/// A line, decoded as UTF-8, and the offset after the first byte of its line end, if it has one.
struct Line {
    text: String,
    end: Option<u64>,
}

pub(crate) fn decode(input: &[u8]) -> Record {
    let mut record = Record {
        events: Vec::new(),
        error: None,
        offset: input.len() as u64,
        boundary: 0,
        retry: None,
        last_event_id: String::new(),
    };
    let (mut data, mut event_type, mut id) = (String::new(), String::new(), String::new());
    let mut start = 0;
    let mut seen = |data: &str, event_type: &str, id: &str, end: u64, terminated: bool| {
        // "If the data buffer is an empty string, set the data buffer and the event type buffer to
        // the empty string and return." It is not empty after an empty data line: it has the LF
        // that is removed now.
        let data = data.strip_suffix('\n')?;
        let event = if event_type.is_empty() {
            "message"
        } else {
            event_type
        };
        let range = std::mem::replace(&mut start, end)..end;
        Some(Seen {
            event: event.to_owned(),
            data: data.to_owned(),
            id: id.to_owned(),
            range,
            terminated,
        })
    };
    for line in lines(input) {
        if line.text.is_empty() {
            let Some(end) = line.end else { continue };
            record.boundary = end
                + u64::from(
                    input[end as usize - 1] == b'\r' && input.get(end as usize) == Some(&b'\n'),
                );
            record.last_event_id.clone_from(&id);
            record
                .events
                .extend(seen(&data, &event_type, &id, end, true));
            data.clear();
            event_type.clear();
            continue;
        }
        let (name, value) = line.text.split_once(':').unwrap_or((&line.text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => data = data + value + "\n",
            "event" => event_type = value.to_owned(),
            "id" if !value.contains('\0') => id = value.to_owned(),
            // Ours: a retry that the end of the stream may have cut is ignored, and one that is too
            // large is the largest.
            "retry"
                if line.end.is_some()
                    && !value.is_empty()
                    && value.chars().all(|c| c.is_ascii_digit()) =>
            {
                record.retry = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    // Ours: the standard drops the unterminated block.
    record
        .events
        .extend(seen(&data, &event_type, &id, input.len() as u64, false));
    record
}

fn lines(input: &[u8]) -> Vec<Line> {
    let body = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut at = input.len() - body.len();
    let mut lines = Vec::new();
    while at < input.len() {
        let len = input[at..]
            .iter()
            .position(|byte| matches!(byte, b'\r' | b'\n'));
        let text = &input[at..len.map_or(input.len(), |len| at + len)];
        let end = len.map(|len| at + len + 1);
        lines.push(Line {
            text: String::from_utf8_lossy(text).into_owned(),
            end: end.map(|end| end as u64),
        });
        at = end.unwrap_or(input.len());
        if input[..at].ends_with(b"\r") && input[at..].starts_with(b"\n") {
            at += 1;
        }
    }
    // The standard decodes the stream first and splits it then. That is the same: no character
    // contains a line end.
    let decoded = String::from_utf8_lossy(body)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut joined: String = lines.iter().map(|line| line.text.clone() + "\n").collect();
    if lines.last().is_some_and(|line| line.end.is_none()) {
        joined.pop();
    }
    assert_eq!(joined, decoded);
    lines
}
