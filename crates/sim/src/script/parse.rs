//! Parses the text of scripts.

use std::str::FromStr;

use super::super::style::ContinuationStyle;
use super::{
    AnswerEnd, BEHAVIOURS, Behaviour, CALL, ENDS, Lead, REASONING, Script, ScriptError,
    ScriptErrorKind, Side, Step, TEXT,
};

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (first, then) = match text.split_once('|') {
            None => (text, None),
            Some((first, then)) => (first, Some(then)),
        };
        let mut script = Self::default();
        let steps = steps(first, 0, Side::First)?;
        if !steps.is_empty() {
            script.first = steps;
        }
        if let Some(then) = then {
            let base = first.len() + 1;
            if let Some(at) = then.find('|') {
                return Err(ScriptError {
                    kind: ScriptErrorKind::SecondBar,
                    offset: base + at,
                });
            }
            let steps = self::steps(then, base, Side::Then)?;
            if !steps.is_empty() {
                script.then = steps;
            }
        }
        Ok(script)
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
    let fail = |kind, offset| {
        Err(ScriptError {
            kind,
            offset: base + offset,
        })
    };
    let (head, end) = match word.split_once('!') {
        None => (word, None),
        Some((head, end)) => (head, Some((end, head.len()))),
    };
    let (name, bytes) = match head.split_once('@') {
        None => (head, None),
        Some((name, bytes)) => (name, Some((bytes, name.len()))),
    };
    let (lead, name, at) = lead(name);
    let behaviour = behaviour(name, base + at)?;
    if !behaviour.fits(side) {
        return fail(ScriptErrorKind::Misplaced(behaviour), at);
    }
    if !behaviour.takes_lead(lead) {
        return fail(ScriptErrorKind::UnexpectedLead(behaviour), 0);
    }
    let mut step = Step {
        lead,
        ..Step::plain(behaviour)
    };
    if let Some((bytes, at)) = bytes {
        if !behaviour.takes_bytes() {
            return fail(ScriptErrorKind::UnexpectedBytes(behaviour), at);
        }
        step.bytes = Some(number(bytes, base + at + 1)?);
    }
    if let Some((end, at)) = end {
        if !behaviour.takes_end() {
            return fail(ScriptErrorKind::UnexpectedEnd(behaviour), at);
        }
        step.end = Some(match end.split_once('=') {
            Some(("drop", bytes)) => {
                AnswerEnd::Reset(number(bytes, base + at + 1 + "drop=".len())?)
            }
            _ => match ENDS.iter().find(|(known, _)| *known == end) {
                Some(&(_, end)) => end,
                None => return fail(ScriptErrorKind::UnknownEnd(end.to_owned()), at + 1),
            },
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
    if let Some(&(_, behaviour)) = BEHAVIOURS.iter().find(|(known, _)| *known == name) {
        return Ok(behaviour);
    }
    if let Some(style) = ContinuationStyle::by_name(name) {
        return Ok(Behaviour::Style(style));
    }
    let fail = |kind| Err(ScriptError { kind, offset });
    let (code, wait) = match name.split_once('~') {
        None => (name, None),
        Some((code, wait)) => (code, Some(wait)),
    };
    if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_digit()) {
        return fail(ScriptErrorKind::UnknownBehaviour(name.to_owned()));
    }
    let code: u16 = number(code, offset)?;
    if !(400..600).contains(&code) {
        return fail(ScriptErrorKind::InvalidStatus(code));
    }
    let retry_after = wait.map(|wait| number(wait, offset + 4)).transpose()?;
    Ok(Behaviour::Status { code, retry_after })
}

/// Reads digits alone. Rust also accepts a leading `+`, which `Display` would not write again.
fn number<T: FromStr>(text: &str, offset: usize) -> Result<T, ScriptError> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(ScriptError {
            kind: ScriptErrorKind::InvalidNumber(text.to_owned()),
            offset,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name, count and end is printed as it was written.
    #[test]
    fn the_text_form_round_trips() {
        for side in [Side::First, Side::Then] {
            let styles = ContinuationStyle::ALL
                .iter()
                .map(|&style| (style.name(), Behaviour::Style(style)));
            for (name, behaviour) in BEHAVIOURS.iter().copied().chain(styles) {
                // `empty` and `refusal` are names of styles, too.
                if !behaviour.fits(side) || !behaviour_is(name, behaviour) {
                    continue;
                }
                let mut words = vec![name.to_owned()];
                if behaviour.takes_bytes() {
                    words.push(format!("{name}@17"));
                }
                if behaviour.takes_end() {
                    words.extend(ENDS.iter().map(|(end, _)| format!("{name}!{end}")));
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
            ("answr", "no behaviour is called `answr` (byte 0)"),
            ("answer  , fenc", "no behaviour is called `fenc` (byte 10)"),
            (
                "answer\u{2003}fenc",
                "no behaviour is called `fenc` (byte 9)",
            ),
            (
                "answer | exact@1 foo",
                "no behaviour is called `foo` (byte 17)",
            ),
            ("answer@", "`` is not a number that fits (byte 7)"),
            ("answer@+1", "`+1` is not a number that fits (byte 7)"),
            (
                "answer@99999999999999999999",
                "`99999999999999999999` is not a number that fits (byte 7)",
            ),
            ("answer@1!lenght", "no end is called `lenght` (byte 9)"),
            ("answer!", "no end is called `` (byte 7)"),
            ("answer!drop=x", "`x` is not a number that fits (byte 12)"),
            ("answer!stop@3", "no end is called `stop@3` (byte 7)"),
            ("399", "399 is not an HTTP error (400 to 599) (byte 0)"),
            ("4290", "no behaviour is called `4290` (byte 0)"),
            ("429~x", "`x` is not a number that fits (byte 4)"),
            (
                "500!stop",
                "`500` is an end itself and takes no `!` (byte 3)",
            ),
            (
                "drop@3",
                "`drop` delivers nothing of the document and takes no `@` (byte 4)",
            ),
            (
                "answer | refusal@3",
                "`refusal` delivers nothing of the document and takes no `@` (byte 16)",
            ),
            (
                "exact",
                "`exact` continues an answer and cannot come before the `|` (byte 0)",
            ),
            (
                "root",
                "`root` continues an answer and cannot come before the `|` (byte 0)",
            ),
            (
                "answer|answer",
                "`answer` answers first calls and cannot come after the `|` (byte 7)",
            ),
            (
                "text+reasoning+tool",
                "no behaviour is called `reasoning+tool` (byte 5)",
            ),
            (
                "text+answer",
                "only `tool` has text or a call before it, not `answer` (byte 0)",
            ),
            ("reasoning+500", "nothing comes before `500` (byte 0)"),
            (
                "answer | tool",
                "`tool` answers first calls and cannot come after the `|` (byte 9)",
            ),
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
