//! Finds what is missing after a text that stopped: the answer of a model that continues without an
//! error.

use super::reading::{End, Node};

/// Returns the text that makes `part` the value of `truth`. `None` where `part` stops inside an
/// escape, because the reader reads only complete escapes.
pub(crate) fn missing(text: &str, part: &Node, truth: &Node) -> Option<String> {
    let mut out = String::new();
    let ticks = text.bytes().rev().take_while(|&byte| byte == b'\\').count();
    let is_cut_escape = ticks % 2 == 1 || text.rfind("\\u").is_some_and(|at| text.len() - at < 6);
    (!is_cut_escape)
        .then(|| follow(part, truth, &mut out))?
        .then_some(out)
}

/// Writes the text after `part`. Returns whether that is known.
fn follow(part: &Node, truth: &Node, out: &mut String) -> bool {
    match (part, truth) {
        (Node::String(_, true) | Node::Number(_, true), _) => true,
        (Node::String(begun, false), Node::String(all, _)) => {
            let rest = all.get(begun.len()..);
            units(rest.unwrap_or_default(), out);
            out.push('"');
            rest.is_some()
        }
        (Node::Number(begun, false), Node::Number(all, _))
        | (Node::Literal(begun), Node::Literal(all)) => all
            .strip_prefix(begun.as_str())
            .map(|rest| out.push_str(rest))
            .is_some(),
        (Node::Array(_, End::Closed) | Node::Object(_, End::Closed), _) => true,
        (Node::Array(elements, end), Node::Array(all, _)) => {
            let last = elements
                .len()
                .checked_sub(1)
                .and_then(|last| elements.get(last).zip(all.get(last)));
            let said = last.is_none_or(|(part, truth)| follow(part, truth, out));
            for (n, element) in all.iter().enumerate().skip(elements.len()) {
                if n > elements.len() || n > 0 && *end != End::Comma {
                    out.push(',');
                }
                write(element, out);
            }
            out.push(']');
            said
        }
        (Node::Object(members, end), Node::Object(all, _)) => object(members, end, all, out),
        _ => false,
    }
}

type Member = (Vec<u16>, Node);

fn object(members: &[Member], end: &End, all: &[Member], out: &mut String) -> bool {
    let of = |key: &[u16]| {
        all.iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    };
    let last = members
        .last()
        .map(|(key, value)| of(key).is_some_and(|truth| follow(value, truth, out)));
    let mut due: Vec<&Member> = all
        .iter()
        .filter(|(key, _)| members.iter().all(|(other, _)| other != key))
        .collect();
    let mut separated = members.is_empty() || *end == End::Comma;
    if let End::Key(key, closed, colon) = end {
        let fits = |(name, _): &&Member| {
            if *closed {
                name == key
            } else {
                name.starts_with(key)
            }
        };
        let Some(at) = due.iter().position(fits) else {
            return false;
        };
        let (name, value) = due.remove(at);
        if !closed {
            units(&name[key.len()..], out);
            out.push('"');
        }
        if !colon {
            out.push(':');
        }
        write(value, out);
        separated = false;
    }
    for (key, value) in due {
        if !std::mem::take(&mut separated) {
            out.push(',');
        }
        out.push('"');
        units(key, out);
        out.push_str("\":");
        write(value, out);
    }
    out.push('}');
    last.unwrap_or(true)
}

fn write(node: &Node, out: &mut String) {
    match node {
        Node::Number(text, _) | Node::Literal(text) => out.push_str(text),
        Node::String(text, _) => {
            out.push('"');
            units(text, out);
            out.push('"');
        }
        // As after the opening bracket of a container without children.
        Node::Array(..) => {
            out.push('[');
            follow(&Node::Array(Vec::new(), End::Value), node, out);
        }
        Node::Object(..) => {
            out.push('{');
            follow(&Node::Object(Vec::new(), End::Value), node, out);
        }
    }
}

fn units(units: &[u16], out: &mut String) {
    for c in char::decode_utf16(units.iter().copied()) {
        match c {
            Ok(c @ ('"' | '\\')) => out.extend(['\\', c]),
            Ok(c) if c >= ' ' => out.push(c),
            Ok(c) => out.push_str(&format!("\\u{:04x}", c as u32)),
            Err(half) => out.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
        }
    }
}

#[test]
fn the_missing_text_completes_the_document() {
    use super::reading::read;
    let text =
        r#"{"a b": [1, -20.5e3, [], {}, {"x": "y\n\ud83d\ude00\""}], "c": {"d": true, "e": null}}"#;
    let truth = read(text).unwrap();
    let mut said = 0;
    for cut in 1..text.len() {
        let part = read(&text[..cut]).unwrap();
        let Some(rest) = missing(&text[..cut], &part, &truth) else {
            continue;
        };
        let whole = format!("{}{rest}", &text[..cut]);
        assert!(read(&whole).is_some_and(|node| node.is(&truth)), "{whole}");
        said += 1;
    }
    // Inside an escape of two characters there is one place to cut, inside one of six there are
    // five.
    assert_eq!(said, text.len() - 1 - (1 + 5 + 5 + 1));
}
