//! Parses the text of scripts.

use std::fmt;
use std::str::FromStr;

use super::super::style::ContinuationStyle;
use super::{AnswerEnd, Behaviour, CALL, Lead, REASONING, Script, Side, Step, TEXT};

/// An error in the text of a script, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    message: String,
    /// Byte offset of the part that is wrong.
    pub offset: usize,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.message, self.offset)
    }
}

impl std::error::Error for ScriptError {}

fn fail<T>(offset: usize, message: impl Into<String>) -> Result<T, ScriptError> {
    let message = message.into();
    Err(ScriptError { message, offset })
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (first, then) = text.split_once('|').unwrap_or((text, ""));
        let base = first.len() + 1;
        if let Some(at) = then.find('|') {
            return fail(base + at, "a second `|`");
        }
        let or = |steps: Vec<Step>, usual| match steps.is_empty() {
            true => vec![Step::plain(usual)],
            false => steps,
        };
        Ok(Self {
            first: or(steps(first, 0, Side::First)?, Behaviour::Answer),
            then: or(steps(then, base, Side::Then)?, Behaviour::Anchor),
        })
    }
}

/// Reads the steps in `text`, which starts at byte `base` of the script.
fn steps(text: &str, base: usize, side: Side) -> Result<Vec<Step>, ScriptError> {
    let mut steps = Vec::new();
    let mut at = 0;
    for word in text.split(|c: char| c.is_whitespace() || c == ',' || c == ';') {
        if !word.is_empty() {
            steps.push(step(word, base + at, side)?);
        }
        // Some white space is longer than one byte, so the length of the separator is looked up.
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    Ok(steps)
}

fn step(word: &str, base: usize, side: Side) -> Result<Step, ScriptError> {
    let (head, end) = match word.split_once('!') {
        None => (word, None),
        Some((head, end)) => (head, Some(end)),
    };
    let (name, bytes) = match head.split_once('@') {
        None => (head, None),
        Some((name, bytes)) => (name, Some(bytes)),
    };
    let (bytes_at, end_at) = (base + name.len(), base + head.len());
    let (lead, name, at) = lead(name);
    let behaviour = behaviour(name, base + at)?;
    if !behaviour.fits(side) {
        let message = match side {
            Side::Then => "answers first calls and cannot come after the `|`",
            Side::First => "continues an answer and cannot come before the `|`",
        };
        return fail(base + at, format!("`{behaviour}` {message}"));
    }
    if !behaviour.takes_lead(lead) {
        let takes_reasoning = behaviour.takes_end() && behaviour != Behaviour::Reasoning;
        let message = match takes_reasoning {
            true => format!("only `tool` has text or a call before it, not `{behaviour}`"),
            false => format!("nothing comes before `{behaviour}`"),
        };
        return fail(base, message);
    }
    let mut step = Step {
        lead,
        ..Step::plain(behaviour)
    };
    if let Some(bytes) = bytes {
        if !behaviour.takes_bytes() {
            let message = "delivers nothing of the document and takes no `@`";
            return fail(bytes_at, format!("`{behaviour}` {message}"));
        }
        step.bytes = Some(number(bytes, bytes_at + 1)?);
    }
    if let Some(end) = end {
        if !behaviour.takes_end() {
            let message = format!("`{behaviour}` is an end itself and takes no `!`");
            return fail(end_at, message);
        }
        step.end = Some(match (end.strip_prefix("drop="), end.parse()) {
            (Some(bytes), _) => AnswerEnd::Reset(number(bytes, end_at + 1 + "drop=".len())?),
            (None, Ok(end)) => end,
            (None, Err(_)) => return fail(end_at + 1, format!("no end is called `{end}`")),
        });
    }
    Ok(step)
}

/// Reads the parts before a behaviour. Returns them, the behaviour's name and its offset.
fn lead(word: &str) -> (Lead, &str, usize) {
    let (mut lead, mut name) = (Lead::default(), word);
    for (word, flag) in [
        (REASONING, &mut lead.reasoning),
        (TEXT, &mut lead.text),
        (CALL, &mut lead.call),
    ] {
        if let Some(rest) = name.strip_prefix(word) {
            (*flag, name) = (true, rest);
        }
    }
    (lead, name, word.len() - name.len())
}

fn behaviour(name: &str, offset: usize) -> Result<Behaviour, ScriptError> {
    if let Ok(behaviour) = name.parse() {
        return Ok(behaviour);
    }
    if let Some(style) = ContinuationStyle::by_name(name) {
        return Ok(Behaviour::Style(style));
    }
    let (code, wait) = match name.split_once('~') {
        None => (name, None),
        Some((code, wait)) => (code, Some(wait)),
    };
    if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_digit()) {
        return fail(offset, format!("no behaviour is called `{name}`"));
    }
    let code: u16 = number(code, offset)?;
    if !(400..600).contains(&code) {
        return fail(offset, format!("{code} is not an HTTP error (400 to 599)"));
    }
    let retry_after = wait.map(|wait| number(wait, offset + 4)).transpose()?;
    Ok(Behaviour::Status { code, retry_after })
}

/// Reads digits alone. Rust also accepts a leading `+`, which `Display` would not write again.
fn number<T: FromStr>(text: &str, offset: usize) -> Result<T, ScriptError> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => fail(offset, format!("`{text}` is not a number that fits")),
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    /// Every name, count and end is printed as it was written.
    #[test]
    fn the_text_form_round_trips() {
        for side in [Side::First, Side::Then] {
            let styles = ContinuationStyle::ALL
                .iter()
                .map(|&style| (style.name(), Behaviour::Style(style)));
            let named = Behaviour::iter().map(|named| (named.into(), named));
            for (name, behaviour) in named.chain(styles) {
                // `empty` and `refusal` are names of styles, too.
                if !behaviour.fits(side) || !behaviour_is(name, behaviour) {
                    continue;
                }
                let mut words = vec![name.to_owned()];
                if behaviour.takes_bytes() {
                    words.push(format!("{name}@17"));
                }
                if behaviour.takes_end() {
                    words.extend(AnswerEnd::iter().map(|end| format!("{name}!{end}")));
                    words.push(format!("{name}!drop=12"));
                }
                for word in words {
                    assert_eq!(step(&word, 0, side).unwrap().to_string(), word);
                }
            }
        }
        for text in [
            "answer@200!length | refusal anchor@300!drop exact@120 anchor",
            "429~2 500 | 599",
            "tool@4!tool reasoning+text+call+tool reasoning+answer | reasoning+anchor@9!drop",
        ] {
            let script: Script = text.parse().unwrap();
            assert_eq!(script.to_string(), text);
        }
    }

    fn behaviour_is(name: &str, expected: Behaviour) -> bool {
        behaviour(name, 0).unwrap() == expected
    }

    /// A behaviour takes precedence over a style of the same name.
    #[test]
    fn names_of_styles_are_behaviours() {
        let read = |name| behaviour(name, 0).unwrap();
        assert_eq!(
            read("element-reformatted"),
            Behaviour::Style(ContinuationStyle::ElementReformatted)
        );
        assert_eq!(read("anchor"), Behaviour::Anchor);
        let own: Vec<&str> = ContinuationStyle::ALL
            .iter()
            .map(|style| style.name())
            .filter(|&name| !matches!(read(name), Behaviour::Style(_)))
            .collect();
        assert_eq!(own, ["anchor", "exact", "empty", "refusal"]);
    }

    #[test]
    fn empty_sides_have_defaults() {
        for text in ["", "|", "answer", " answer | anchor ", ",;|\n", "|anchor"] {
            assert_eq!(
                text.parse::<Script>().unwrap(),
                Script::default(),
                "{text:?}"
            );
        }
        assert_eq!(Script::default().to_string(), "answer | anchor");
    }

    #[test]
    fn errors_say_where() {
        let cases = [
            ("answer  , fenc", "no behaviour is called `fenc` (byte 10)"),
            (
                "answer\u{2003}fenc",
                "no behaviour is called `fenc` (byte 9)",
            ),
            ("answer@", "`` is not a number that fits (byte 7)"),
            (
                "answer@99999999999999999999",
                "`99999999999999999999` is not a number that fits (byte 7)",
            ),
            ("answer@1!lenght", "no end is called `lenght` (byte 9)"),
            ("answer!drop=x", "`x` is not a number that fits (byte 12)"),
            ("399", "399 is not an HTTP error (400 to 599) (byte 0)"),
            ("429~x", "`x` is not a number that fits (byte 4)"),
            (
                "500!stop",
                "`500` is an end itself and takes no `!` (byte 3)",
            ),
            (
                "answer | refusal@3",
                "`refusal` delivers nothing of the document and takes no `@` (byte 16)",
            ),
            (
                "root",
                "`root` continues an answer and cannot come before the `|` (byte 0)",
            ),
            (
                "answer | tool",
                "`tool` answers first calls and cannot come after the `|` (byte 9)",
            ),
            (
                "text+answer",
                "only `tool` has text or a call before it, not `answer` (byte 0)",
            ),
            ("reasoning+500", "nothing comes before `500` (byte 0)"),
            ("answer | anchor | anchor", "a second `|` (byte 16)"),
        ];
        for (text, message) in cases {
            assert_eq!(
                text.parse::<Script>().unwrap_err().to_string(),
                message,
                "{text:?}"
            );
        }
    }
}
