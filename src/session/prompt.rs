//! The user's message that asks for the rest: the known parts of the cut, the task, the text to repeat.

use super::question::QuestionForm;
use super::tags;
use super::template::{Placeholder, Template, TemplateError};

/// The facts about a cut that a prompt can use. `None`: the part is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts<'a> {
    /// All text that was delivered.
    pub delivered: &'a str,
    /// The parts of the question itself.
    pub question: QuestionParts<'a>,
    /// A rendering that replaces delivered text that is too long. The rendering ends as the text
    /// does.
    pub hierarchy_context: Option<&'a str>,
    /// The tool whose call's arguments were cut. Only where they were.
    pub tool_call: Option<&'a str>,
    /// A summary of the delivered text.
    pub delivered_summary: Option<&'a str>,
    /// The last whole element before the cut.
    pub element_before_cutoff: Option<&'a str>,
    /// The element that stops in the middle.
    pub cut_off_element: Option<&'a str>,
    /// The JSON Pointer of that element. Sent only if an earlier question failed.
    pub cut_path: Option<&'a str>,
    /// The requirements of the request's schema that the last answer did not meet.
    pub shortfall: Option<&'a str>,
    /// The document is short: the task has fewer words.
    pub is_short: bool,
}

/// The parts of a question. Its form selects the parts that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionParts<'a> {
    /// Which task is given.
    pub form: QuestionForm,
    /// The tail of the delivered text that the model must repeat.
    pub anchor: &'a str,
    /// The mark to write between that text and the new text. See [`MarkUse`].
    pub mark: Option<&'a str>,
    /// The parts that are missing, by their names in the schema that forces the rest.
    pub members: Option<&'a str>,
}

impl QuestionParts<'_> {
    /// Returns the parts of a question with this form, which names no text to repeat.
    pub fn of(form: QuestionForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }
}

impl<'a> Parts<'a> {
    /// Returns the parts that are known at every cut.
    pub fn new(delivered: &'a str, anchor: &'a str) -> Self {
        let question = QuestionParts {
            anchor,
            ..QuestionParts::default()
        };
        Self {
            delivered,
            question,
            ..Self::default()
        }
    }

    /// Returns the sections about the cut, which precede the task.
    fn context(&self) -> impl Iterator<Item = Section<'a>> {
        let known = [
            ("tool_call", TOOL_CALL, self.tool_call),
            (
                "delivered_summary",
                "So far I have this:",
                self.delivered_summary,
            ),
            (
                "element_before_cutoff",
                "The last element that I have whole:",
                self.element_before_cutoff,
            ),
            ("cut_off_element", CUT_OFF_ELEMENT, self.cut_off_element),
            (
                "cut_path",
                "The JSON Pointer of that element:",
                self.cut_path,
            ),
            ("missing_part", SHORTFALL, self.shortfall),
        ];
        known
            .into_iter()
            .filter_map(|(name, words, text)| Some(Section::tagged(name, words, text?)))
    }

    /// Returns the section with the text to repeat, if there is one: a whole document and missing
    /// members have none.
    fn anchor(&self) -> Option<Section<'a>> {
        let is_repeated = !matches!(
            self.question.form,
            QuestionForm::Again | QuestionForm::Members
        );
        is_repeated.then(|| Section::tagged(ANCHOR, "", self.question.anchor))
    }

    fn mark(&self, words: &'static str) -> Option<Section<'a>> {
        let mark = self.question.mark?;
        Some(Section::tagged("continue_mark", words, mark))
    }
}

/// A section of the message: words, and a text in tags below them.
#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    words: &'a str,
    /// The name of the tag, and the text.
    tagged: Option<(&'static str, &'a str)>,
}

impl<'a> Section<'a> {
    fn words(words: &'a str) -> Self {
        Self {
            words,
            tagged: None,
        }
    }

    fn tagged(name: &'static str, words: &'a str, text: &'a str) -> Self {
        Self {
            words,
            tagged: Some((name, text)),
        }
    }

    /// Appends the section. `suffix`: that of all tags.
    fn write(&self, out: &mut String, suffix: &str) {
        if !self.words.is_empty() {
            paragraph(out);
            out.push_str(&self.words.replace(ANCHOR_TAG, &format!("{ANCHOR}{suffix}")));
        }
        if let Some((name, text)) = self.tagged {
            paragraph(out);
            *out += &format!("<{name}{suffix}>\n{text}\n</{name}{suffix}>");
        }
    }
}

/// Ends the paragraph before, if there is one.
fn paragraph(out: &mut String) {
    if !out.is_empty() {
        out.push_str("\n\n");
    }
}

/// When a prompt asks for a mark: a short text that occurs nowhere in the delivered text, written
/// between the repeated text and the new text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MarkUse {
    /// In every question.
    Always,
    /// After an answer that was not joined.
    #[default]
    OnRetries,
    /// In no question.
    Never,
}

/// A prompt that is written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    /// The user's message.
    pub(super) text: String,
    /// The names of its tags.
    pub(super) tags: Vec<String>,
    /// The beginnings of its sentences, and its tags with their line ends.
    pub(super) own_words: Vec<String>,
}

/// The words of the user's message.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::{CallEnd, ContinuationStrategy, Input, Output, Prompt, Session};
///
/// let prompt = Prompt::default().with_instruction("Bitte weiter, ab hier:\n{{overlap_context}}")?;
/// let mut session = Session::new(restitch::Limits::default());
/// session.set_strategy(ContinuationStrategy::with(prompt));
/// session.handle_input(Duration::ZERO, Input::Text("[\"a\", \"b"));
/// session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Dropped));
/// let request = std::iter::from_fn(|| session.poll_output()).find_map(|output| match output {
///     Output::Call { request, .. } => Some(request),
///     _ => None,
/// });
/// let turn = request.unwrap().turn.unwrap();
/// let message = "Bitte weiter, ab hier:\n<overlap_context>\n[\"a\", \"b\n</overlap_context>";
/// assert_eq!(turn.prompt, message);
/// # Ok::<(), restitch::session::TemplateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    instruction: Option<Template>,
    mark_use: MarkUse,
    asks_progress: bool,
}

impl Prompt {
    /// Replaces the whole message wherever the model repeats the end of the delivered text and goes
    /// on. Questions that force the rest, or ask for another document, keep their own words.
    ///
    /// The placeholders are `{{overlap_context}}`, the text to repeat in its tag, which must be
    /// there; `{{context}}`, the known parts of the cut in their tags; `{{continue_mark}}`, the mark
    /// in its tag, if the question has one. Without the last one no question has a mark.
    ///
    /// # Errors
    /// Fails when the text names an unknown placeholder, or lacks `{{overlap_context}}`.
    pub fn with_instruction(mut self, text: &str) -> Result<Self, TemplateError> {
        self.instruction = Some(text.parse()?);
        Ok(self)
    }

    /// Sets when a question asks for a mark.
    #[must_use]
    pub fn with_mark(mut self, mark_use: MarkUse) -> Self {
        self.mark_use = mark_use;
        self
    }

    /// Sets whether a question asks how much of the document there is. Default: no.
    #[must_use]
    pub fn with_progress(mut self, asks_progress: bool) -> Self {
        self.asks_progress = asks_progress;
        self
    }

    /// Returns the text that replaces the message, if there is one.
    pub fn instruction(&self) -> Option<&str> {
        self.instruction.as_ref().map(Template::as_str)
    }

    /// Returns when a question asks for a mark.
    pub fn mark_use(&self) -> MarkUse {
        self.mark_use
    }

    /// Returns whether a question asks how much of the document there is.
    pub fn asks_progress(&self) -> bool {
        self.asks_progress
    }

    /// Whether a prompt asks for a mark.
    pub(super) fn uses_mark(&self, is_retry: bool) -> bool {
        let is_wanted = match self.mark_use {
            MarkUse::Always => true,
            MarkUse::OnRetries => is_retry,
            MarkUse::Never => false,
        };
        let own = self.instruction.as_ref();
        is_wanted && own.is_none_or(|own| own.has(Placeholder::Mark))
    }

    /// Returns the user's message. No text of a part has one of its tags.
    #[doc(hidden)]
    pub fn render(&self, parts: &Parts<'_>) -> String {
        self.rendered(parts).text
    }

    /// Returns the user's message, and the names of the tags in it.
    pub(super) fn rendered(&self, parts: &Parts<'_>) -> Rendered {
        let question = parts.question;
        let own = self.instruction.as_ref();
        if let Some(own) = own.filter(|_| question.form.is_literal()) {
            return self.rendered_own(own, parts);
        }
        let members = question.members;
        let members = members.map(|text| Section::tagged("missing_members", "", text));
        let sections: Vec<_> = parts
            .context()
            .chain([Section::words(task(question.form, parts.is_short))])
            .chain(members)
            .chain(self.progress(question.form))
            .chain(parts.anchor())
            .chain(parts.mark(MARK))
            .collect();
        let suffix = suffix(&sections, parts.delivered);
        Rendered {
            text: written(&sections, &suffix),
            ..Rendered::recognized(&sections, &suffix)
        }
    }

    /// Returns the operator's own message.
    fn rendered_own(&self, own: &Template, parts: &Parts<'_>) -> Rendered {
        let context: Vec<_> = parts
            .context()
            .map(|section| Section {
                words: "",
                ..section
            })
            .collect();
        let context = if own.has(Placeholder::Context) {
            context
        } else {
            Vec::new()
        };
        let (anchor, mark) = (
            Vec::from_iter(parts.anchor()),
            Vec::from_iter(parts.mark("")),
        );
        let progress = Vec::from_iter(self.progress(parts.question.form));
        let own_words = [Section::words(own.as_str())];
        let all = [&own_words[..], &context, &anchor, &mark, &progress].concat();
        let suffix = suffix(&all, parts.delivered);
        let [context, anchor, mark, progress] =
            [context, anchor, mark, progress].map(|sections| written(&sections, &suffix));
        let mut text = own.filled(|place| match place {
            Placeholder::Context => &context,
            Placeholder::Anchor => &anchor,
            Placeholder::Mark => &mark,
        });
        // An empty section at an end leaves the lines around it.
        text = text.trim().to_owned();
        if !progress.is_empty() {
            paragraph(&mut text);
            text += &progress;
        }
        Rendered {
            text,
            ..Rendered::recognized(&all, &suffix)
        }
    }

    /// Returns the question how much of the document is delivered, if it is asked. JSON mode and a
    /// grammar allow no line in front of the document, and the answers about prose are not read for
    /// one.
    fn progress(&self, form: QuestionForm) -> Option<Section<'static>> {
        (self.asks_progress && form.allows_remark()).then(|| Section::words(PROGRESS))
    }
}

impl Rendered {
    /// Returns the texts by which a message of these sections is recognized, without the message.
    fn recognized(sections: &[Section<'_>], suffix: &str) -> Self {
        let tagged = sections.iter().filter_map(|section| section.tagged);
        let tags: Vec<String> = tagged
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, _)| format!("{name}{suffix}"))
            .collect();
        let words = sections.iter().flat_map(|section| sentences(section.words));
        // A JSON string has no raw line end, so a tag with one is no text of a string.
        let lines = tags
            .iter()
            .flat_map(|name| [format!("<{name}>\n"), format!("</{name}>\n")]);
        let own_words = words.chain(lines).collect();
        Self {
            text: String::new(),
            tags,
            own_words,
        }
    }
}

/// Returns sections as text.
fn written(sections: &[Section<'_>], suffix: &str) -> String {
    let mut text = String::new();
    for section in sections {
        section.write(&mut text, suffix);
    }
    text
}

/// Returns the suffix of the tags. No text has one of them, and the assistant's message has none,
/// either: a model could confuse them.
fn suffix(sections: &[Section<'_>], delivered: &str) -> String {
    let tagged = || sections.iter().filter_map(|section| section.tagged);
    let names: Vec<&str> = tagged()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, _)| name)
        .chain([ANCHOR])
        .collect();
    let texts: Vec<&str> = tagged().map(|(_, text)| text).chain([delivered]).collect();
    tags::suffix(&names, &texts)
}

/// Returns the task of a question. `is_short`: the document is short, and a longer task costs more
/// than it.
///
/// All words are in the first person and do not sound like an operator: models refused such notices
/// as injections.
pub fn task(form: QuestionForm, is_short: bool) -> &'static str {
    match form {
        QuestionForm::Anchor | QuestionForm::Forced if is_short => SHORT_TASK,
        QuestionForm::Anchor | QuestionForm::Forced => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document. Please carry on, so that I can append what you write to \
             what I have. First repeat the text between the two tags below, exactly as it is written there, then go \
             straight on with what follows it, to the end of the document. A word or number at the end of that text may be unfinished. \
             Please write nothing else: no explanation, no code fence, and nothing that comes before that text."
        }
        QuestionForm::LongerAnchor => {
            "My connection dropped while I was receiving your answer, and I could not append what you sent me since \
             then. The message above is all that I have: it stops in the middle of the JSON document. Please begin \
             with a copy of the text between the two `{{anchor_tag}}` tags below, character by character: what I \
             have ends with it. Then write all that follows it, to the end of the document. Please write nothing \
             else: no explanation, no code fence, and nothing that comes before that text."
        }
        QuestionForm::WholeElement => {
            "I am still missing the last part of the JSON document that you were writing for me. It stops inside an \
             element, and neither the rest of that element nor anything after it has reached me. Please write that \
             element from the beginning of the text between the two `{{anchor_tag}}` tags below: first this text, \
             exactly as it is written there, then the rest of the element, and then every element and member that is \
             due after it. Close the document only when all of it is written. Please write nothing else: no \
             explanation, no code fence, and nothing that comes before that text."
        }
        QuestionForm::Rerooted => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document, with the text between the two `{{anchor_tag}}` tags below. \
             Please send me the rest as one JSON document: the path to the element in which it stops (the same \
             objects and arrays around it, without what I have whole), that element in full, and everything after \
             it, to the end."
        }
        QuestionForm::RerootedAgain => {
            "I am still missing the last part of the JSON document that you were writing for me, and I could not \
             append what you sent me since then. What I have ends with the text between the two `{{anchor_tag}}` \
             tags below. Please write one JSON document with the outer objects and arrays of the document above. \
             Leave out every element and member that I have whole. Begin with the element that stops in the middle, \
             with all that I have of it unchanged, complete it, and then write every element and member that is due \
             after it."
        }
        QuestionForm::ToolInput => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document. Please call the tool with the rest: begin with the text \
             between the two tags below, with which the message ends, then go straight on to the end of the \
             document. Leave out nothing that is still due."
        }
        QuestionForm::Again => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document. Please write the document once more, from its beginning: \
             everything that reached me unchanged, and then all that is still due, to the end. Please write nothing \
             else."
        }
        QuestionForm::Members => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle of the JSON document. Please answer with one JSON object that has the members \
             below. Together with the message above they must make the whole document, so leave out nothing that is \
             still due, and repeat only what a member asks for."
        }
        QuestionForm::Text => {
            "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
             stops in the middle. Please carry on, so that I can append what you write to what I have. First repeat \
             the text between the two tags below, exactly as it is written there, then go straight on in the same \
             line with what follows it, to the end of your answer. Please write nothing else: no explanation, no \
             tags, no code fence around it, and nothing that comes before that text."
        }
        QuestionForm::TextAgain => {
            "My connection dropped while I was receiving your answer, and I could not append what you sent me since \
             then. What I have ends with the text between the two `{{anchor_tag}}` tags below. Please begin with a \
             copy of this text, character by character, without the tags. Then write all that follows it, to the end \
             of your answer. Please write nothing else: no explanation, no code fence around it, and nothing that \
             comes before that text."
        }
    }
}

const TOOL_CALL: &str = "You were about to call a tool for me. The JSON document is the arguments of that call. Please write them \
    as plain text, and make no tool call. This is the tool:";

const CUT_OFF_ELEMENT: &str =
    "It stops inside this element. I have this much of it, and nothing after it:";

const SHORTFALL: &str = "Your last answer closed the document too early. Please write what is missing before you close it:";

const SHORT_TASK: &str = "My connection dropped while I was receiving your answer. The message above is all that reached me. Please repeat \
    the text between the two tags below exactly, then go straight on with what follows it, to the end of the JSON \
    document. A word or number at the end of that text may be unfinished. Please write nothing else.";

// The question is the specification's (`kpi_question`).
const PROGRESS: &str = "With one exception: begin with a line of its own, `PROGRESS: ` and a number, and only then repeat the \
    text. Based on the delivered data so far, approximately what percentage (%) of the total required \
    content has been delivered? Respond with an integer between 0-100.";

const MARK: &str = "Right after that text, and before anything new, please write the mark between the next two tags, once \
    and exactly as it is written there. Then go on with the document.";

/// The name of the tag around the text to repeat.
const ANCHOR: &str = "overlap_context";

/// The place of that name in the words.
const ANCHOR_TAG: &str = "{{anchor_tag}}";

/// Returns the beginnings of the sentences, where they are long enough to be recognized and have no
/// placeholder.
fn sentences(words: &str) -> impl Iterator<Item = String> {
    let starts = words
        .split(['.', '?', '!', '\n'])
        .map(|sentence| sentence.trim_start().chars().take(OWN_CHARS).collect());
    let is_known = |start: &String| start.chars().count() == OWN_CHARS && !start.contains('{');
    starts.filter(is_known)
}

// Shorter beginnings occur in other texts, and longer ones are withheld for longer.
/// Characters by which a sentence of the prompt is recognized.
const OWN_CHARS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// A sentence that begins with a common letter would withhold text of every answer.
    #[test]
    fn sentences_begin_where_the_prompt_begins_them() {
        let parts = Parts {
            tool_call: Some(""),
            cut_off_element: Some(""),
            shortfall: Some(""),
            ..Parts::default()
        };
        let tasks = QuestionForm::ALL.map(|form| Section::words(task(form, false)));
        let others = [SHORT_TASK, PROGRESS, MARK].map(Section::words);
        let mut seen = 0;
        for section in parts.context().chain(tasks).chain(others) {
            for start in sentences(section.words) {
                assert!(start.starts_with(|c: char| c.is_uppercase()), "{start}");
                assert_eq!(start.chars().count(), OWN_CHARS);
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
    }
}
