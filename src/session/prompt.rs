//! The user's message that asks for the rest: parts, each with a template that can be replaced or
//! switched off.

use std::sync::LazyLock;

use super::question::QuestionForm;
use super::tags;
use super::template::{Placeholder, Template, TemplateError};

/// A part of the prompt. [`Part::ALL`] is their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The tool whose call's arguments were cut. Only where they were.
    ToolCall,
    /// A summary of the delivered text.
    DeliveredSummary,
    /// The last whole element before the cut.
    ElementBeforeCutoff,
    /// The element that stops in the middle.
    CutOffElement,
    /// The JSON Pointer of that element. Sent only if an earlier question failed.
    CutPath,
    /// What the request's schema requires and the last answer lacked.
    Shortfall,
    /// The instruction.
    Instruction,
    /// The instruction after an answer that was not joined.
    RetryInstruction,
    /// The instruction after a second answer that was not joined: to repeat the element that was
    /// cut.
    ElementInstruction,
    /// The instruction where JSON mode stays: to write a separate document.
    JsonInstruction,
    /// The instruction where JSON mode stays, after an answer that was not joined.
    JsonRetryInstruction,
    /// The instruction where a grammar forces the rest: to call a tool with it.
    ToolInstruction,
    /// The instruction to write the whole document once more.
    AgainInstruction,
    /// The instruction where a schema forces the rest: to write the parts that are missing.
    MembersInstruction,
    /// The parts that are missing, by their names in that schema.
    Members,
    /// The instruction for prose.
    TextInstruction,
    /// The instruction for prose, after an answer that was not joined.
    TextRetryInstruction,
    /// Asks how much of the document is delivered, in percent. Off unless it is switched on.
    Progress,
    /// The text to repeat.
    Anchor,
    /// The mark to write between that text and the new text. See [`MarkUse`].
    Mark,
}

impl Part {
    /// All parts, in their order.
    pub const ALL: [Self; 20] = [
        Self::ToolCall,
        Self::DeliveredSummary,
        Self::ElementBeforeCutoff,
        Self::CutOffElement,
        Self::CutPath,
        Self::Shortfall,
        Self::Instruction,
        Self::RetryInstruction,
        Self::ElementInstruction,
        Self::JsonInstruction,
        Self::JsonRetryInstruction,
        Self::ToolInstruction,
        Self::AgainInstruction,
        Self::MembersInstruction,
        Self::Members,
        Self::TextInstruction,
        Self::TextRetryInstruction,
        Self::Progress,
        Self::Anchor,
        Self::Mark,
    ];

    /// Returns its name, in its tag and in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::DeliveredSummary => "delivered_summary",
            Self::ElementBeforeCutoff => "element_before_cutoff",
            Self::CutOffElement => "cut_off_element",
            Self::CutPath => "cut_path",
            Self::Shortfall => "missing_part",
            Self::Instruction => "instruction",
            Self::RetryInstruction => "retry_instruction",
            Self::ElementInstruction => "element_instruction",
            Self::JsonInstruction => "json_instruction",
            Self::JsonRetryInstruction => "json_retry_instruction",
            Self::ToolInstruction => "tool_instruction",
            Self::AgainInstruction => "again_instruction",
            Self::MembersInstruction => "members_instruction",
            Self::Members => "missing_members",
            Self::TextInstruction => "text_instruction",
            Self::TextRetryInstruction => "text_retry_instruction",
            Self::Progress => "progress",
            Self::Anchor => "overlap_context",
            Self::Mark => "continue_mark",
        }
    }

    /// Returns the part's default template.
    ///
    /// It is in the first person and does not sound like an operator: models refused such notices
    /// as injections.
    pub fn template(self) -> &'static str {
        match self {
            Self::ToolCall => {
                "You were about to call a tool for me. The JSON document is the arguments of that call. Please write them \
                 as plain text, and make no tool call. This is the tool:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>"
            }
            Self::DeliveredSummary => "So far I have this:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::ElementBeforeCutoff => {
                "The last element that I have whole:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>"
            }
            Self::CutOffElement => {
                "It stops inside this element. I have this much of it, and nothing after it:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>"
            }
            Self::CutPath => "The JSON Pointer of that element:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::Shortfall => {
                "Your last answer closed the document too early. Please write what is missing before you close it:\n\n\
                 <{{tag}}>\n{{text}}\n</{{tag}}>"
            }
            Self::Instruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document. Please carry on, so that I can append what you write to \
                 what I have. First repeat the text between the two tags below, exactly as it is written there, then go \
                 straight on with what follows it, to the end of the document. A word or number at the end of that text may be unfinished. \
                 Please write nothing else: no explanation, no code fence, and nothing that comes before that text."
            }
            Self::RetryInstruction => {
                "My connection dropped while I was receiving your answer, and I could not append what you sent me since \
                 then. The message above is all that I have: it stops in the middle of the JSON document. Please begin \
                 with a copy of the text between the two `{{anchor_tag}}` tags below, character by character: what I \
                 have ends with it. Then write all that follows it, to the end of the document. Please write nothing \
                 else: no explanation, no code fence, and nothing that comes before that text."
            }
            Self::ElementInstruction => {
                "I am still missing the last part of the JSON document that you were writing for me. It stops inside an \
                 element, and neither the rest of that element nor anything after it has reached me. Please write that \
                 element from the beginning of the text between the two `{{anchor_tag}}` tags below: first this text, \
                 exactly as it is written there, then the rest of the element, and then every element and member that is \
                 due after it. Close the document only when all of it is written. Please write nothing else: no \
                 explanation, no code fence, and nothing that comes before that text."
            }
            Self::JsonInstruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document, with the text between the two `{{anchor_tag}}` tags below. \
                 Please send me the rest as one JSON document: the path to the element in which it stops (the same \
                 objects and arrays around it, without what I have whole), that element in full, and everything after \
                 it, to the end."
            }
            Self::JsonRetryInstruction => {
                "I am still missing the last part of the JSON document that you were writing for me, and I could not \
                 append what you sent me since then. What I have ends with the text between the two `{{anchor_tag}}` \
                 tags below. Please write one JSON document with the outer objects and arrays of the document above. \
                 Leave out every element and member that I have whole. Begin with the element that stops in the middle, \
                 with all that I have of it unchanged, complete it, and then write every element and member that is due \
                 after it."
            }
            Self::ToolInstruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document. Please call the tool with the rest: begin with the text \
                 between the two tags below, with which the message ends, then go straight on to the end of the \
                 document. Leave out nothing that is still due."
            }
            Self::AgainInstruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document. Please write the document once more, from its beginning: \
                 everything that reached me unchanged, and then all that is still due, to the end. Please write nothing \
                 else."
            }
            Self::MembersInstruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document. Please answer with one JSON object that has the members \
                 below. Together with the message above they must make the whole document, so leave out nothing that is \
                 still due, and repeat only what a member asks for."
            }
            Self::Members => "<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::TextInstruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle. Please carry on, so that I can append what you write to what I have. First repeat \
                 the text between the two tags below, exactly as it is written there, then go straight on in the same \
                 line with what follows it, to the end of your answer. Please write nothing else: no explanation, no \
                 tags, no code fence around it, and nothing that comes before that text."
            }
            Self::TextRetryInstruction => {
                "My connection dropped while I was receiving your answer, and I could not append what you sent me since \
                 then. What I have ends with the text between the two `{{anchor_tag}}` tags below. Please begin with a \
                 copy of this text, character by character, without the tags. Then write all that follows it, to the end \
                 of your answer. Please write nothing else: no explanation, no code fence around it, and nothing that \
                 comes before that text."
            }
            // The question is the specification's (`kpi_question`).
            Self::Progress => {
                "With one exception: begin with a line of its own, `PROGRESS: ` and a number, and only then repeat the \
                 text. Based on the delivered data so far, approximately what percentage (%) of the total required \
                 content has been delivered? Respond with an integer between 0-100."
            }
            Self::Anchor => "<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::Mark => {
                "Right after that text, and before anything new, please write the mark between the next two tags, once \
                 and exactly as it is written there. Then go on with the document.\n\n<{{tag}}>\n{{text}}\n</{{tag}}>"
            }
        }
    }
}

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
    /// See [`Part::ToolCall`].
    pub tool_call: Option<&'a str>,
    /// See [`Part::DeliveredSummary`].
    pub delivered_summary: Option<&'a str>,
    /// See [`Part::ElementBeforeCutoff`].
    pub element_before_cutoff: Option<&'a str>,
    /// See [`Part::CutOffElement`].
    pub cut_off_element: Option<&'a str>,
    /// See [`Part::CutPath`].
    pub cut_path: Option<&'a str>,
    /// See [`Part::Shortfall`].
    pub shortfall: Option<&'a str>,
    /// The document is short: the default [`Part::Instruction`] has fewer words.
    pub is_short: bool,
}

/// The parts of a question. Its form selects the parts that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionParts<'a> {
    /// Which instruction is given.
    pub form: QuestionForm,
    /// The tail of the delivered text that the model must repeat.
    pub anchor: &'a str,
    /// See [`Part::Mark`].
    pub mark: Option<&'a str>,
    /// See [`Part::Members`].
    pub members: Option<&'a str>,
}

impl<'a> QuestionParts<'a> {
    /// Returns the parts of a question with this form, which names no text to repeat.
    pub fn of(form: QuestionForm) -> Self {
        Self {
            form,
            ..Self::default()
        }
    }

    /// Returns an empty text if the question has this form, so that the part is shown.
    fn instruction(self, form: QuestionForm) -> Option<&'a str> {
        (self.form == form).then_some("")
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

    fn text(&self, part: Part) -> Option<&'a str> {
        let question = self.question;
        match part {
            Part::ToolCall => self.tool_call,
            Part::DeliveredSummary => self.delivered_summary,
            Part::ElementBeforeCutoff => self.element_before_cutoff,
            Part::CutOffElement => self.cut_off_element,
            Part::CutPath => self.cut_path,
            Part::Shortfall => self.shortfall,
            Part::Instruction => question
                .instruction(QuestionForm::Anchor)
                .or_else(|| question.instruction(QuestionForm::Forced)),
            Part::RetryInstruction => question.instruction(QuestionForm::LongerAnchor),
            Part::ElementInstruction => question.instruction(QuestionForm::WholeElement),
            Part::JsonInstruction => question.instruction(QuestionForm::Rerooted),
            Part::JsonRetryInstruction => question.instruction(QuestionForm::RerootedAgain),
            Part::ToolInstruction => question.instruction(QuestionForm::ToolInput),
            Part::AgainInstruction => question.instruction(QuestionForm::Again),
            Part::MembersInstruction => question.instruction(QuestionForm::Members),
            Part::Members => question.members,
            Part::TextInstruction => question.instruction(QuestionForm::Text),
            Part::TextRetryInstruction => question.instruction(QuestionForm::TextAgain),
            // JSON mode and a grammar allow no line in front of the document, and the answers about
            // prose are not read for one.
            Part::Progress => question.form.allows_remark().then_some(""),
            // A whole document and missing members have no text to repeat.
            Part::Anchor => {
                let is_repeated =
                    !matches!(question.form, QuestionForm::Again | QuestionForm::Members);
                is_repeated.then_some(question.anchor)
            }
            Part::Mark => question.mark,
        }
    }
}

/// When a prompt asks for a mark: a short text that occurs nowhere in the delivered text, written
/// between the repeated text and the new text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

impl MarkUse {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Always, Self::OnRetries, Self::Never];

    /// Returns the name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnRetries => "on-retries",
            Self::Never => "never",
        }
    }
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

/// The templates of a prompt.
///
/// ```
/// use std::time::Duration;
/// use restitch::session::{CallEnd, ContinuationStrategy, Input, Output, Part, Prompt, Session};
///
/// let prompt = Prompt::default().with(Part::Instruction, Some("Bitte weiter, ab <{{anchor_tag}}>:"))?;
/// let mut session = Session::new(restitch::Limits::default());
/// session.set_strategy(ContinuationStrategy::with(prompt));
/// session.handle_input(Duration::ZERO, Input::Text("[\"a\", \"b"));
/// session.handle_input(Duration::ZERO, Input::CallEnd(CallEnd::Dropped));
/// let request = std::iter::from_fn(|| session.poll_output()).find_map(|output| match output {
///     Output::Call { request, .. } => Some(request),
///     _ => None,
/// });
/// let turn = request.unwrap().turn.unwrap();
/// let end = "Bitte weiter, ab <overlap_context>:\n\n<overlap_context>\n[\"a\", \"b\n</overlap_context>";
/// assert!(turn.prompt.ends_with(end), "{}", turn.prompt);
/// # Ok::<(), restitch::session::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// In the order of the parts.
    templates: Vec<(Part, Template)>,
    mark_use: MarkUse,
}

impl Default for Prompt {
    fn default() -> Self {
        let on = Part::ALL.into_iter().filter(|part| *part != Part::Progress);
        // The templates of this module parse without an error.
        let templates = on
            .filter_map(|part| Some((part, part.template().parse().ok()?)))
            .collect();
        Self {
            templates,
            mark_use: MarkUse::default(),
        }
    }
}

impl Prompt {
    /// Replaces the template of a part; `None` leaves out the part.
    ///
    /// # Errors
    /// Fails when the template names an unknown placeholder.
    pub fn with(mut self, part: Part, template: Option<&str>) -> Result<Self, TemplateError> {
        let template = template.map(str::parse).transpose()?;
        self.templates.retain(|(other, _)| *other != part);
        if let Some(template) = template {
            self.templates.push((part, template));
            self.templates.sort_by_key(|(part, _)| *part);
        }
        Ok(self)
    }

    /// Sets when a question asks for a mark.
    #[must_use]
    pub fn with_mark(mut self, mark_use: MarkUse) -> Self {
        self.mark_use = mark_use;
        self
    }

    /// Returns when a question asks for a mark.
    pub fn mark_use(&self) -> MarkUse {
        self.mark_use
    }

    /// The template of a part, if that is on.
    pub fn template(&self, part: Part) -> Option<&Template> {
        self.templates
            .iter()
            .find(|(other, _)| *other == part)
            .map(|(_, template)| template)
    }

    /// Whether the prompt asks for the anchor.
    pub fn has_anchor(&self) -> bool {
        self.template(Part::Anchor)
            .is_some_and(|template| template.has(Placeholder::Text))
    }

    /// Whether a prompt asks for a mark. If no text is repeated before it, a mark proves nothing.
    pub(super) fn uses_mark(&self, is_retry: bool) -> bool {
        let is_wanted = match self.mark_use {
            MarkUse::Always => true,
            MarkUse::OnRetries => is_retry,
            MarkUse::Never => false,
        };
        let is_on = self
            .template(Part::Mark)
            .is_some_and(|template| template.has(Placeholder::Text));
        is_wanted && is_on && self.has_anchor()
    }

    /// Returns the user's message. No text of a part has one of its tags.
    #[doc(hidden)]
    pub fn render(&self, parts: &Parts<'_>) -> String {
        self.rendered(parts).text
    }

    /// Returns the template of an instruction for a short document, if the operator has not
    /// replaced that for all documents.
    fn short(&self, part: Part) -> Option<&'static Template> {
        let is_default = |template: &Template| template.as_str() == part.template();
        let template = self.template(part).filter(|_| part == Part::Instruction);
        template
            .is_some_and(is_default)
            .then_some(SHORT_INSTRUCTION.as_ref()?)
    }

    /// Returns the user's message, and the names of the tags in it.
    pub(super) fn rendered(&self, parts: &Parts<'_>) -> Rendered {
        let shown = || {
            self.templates.iter().filter_map(|(part, template)| {
                let text = parts.text(*part)?;
                let short = parts.is_short.then(|| self.short(*part)).flatten();
                Some((*part, short.unwrap_or(template), text))
            })
        };
        let mut names: Vec<&str> = shown()
            .filter(|(.., text)| !text.is_empty())
            .map(|(part, ..)| part.as_str())
            .collect();
        names.push(Part::Anchor.as_str());
        // The tags must not occur in the assistant's message either: a model could confuse them.
        let texts: Vec<&str> = shown()
            .map(|(.., text)| text)
            .chain([parts.delivered])
            .collect();
        let suffix = tags::suffix(&names, &texts);
        let tag = |part: Part| format!("{}{suffix}", part.as_str());
        let anchor_tag = tag(Part::Anchor);
        let mut out = String::new();
        for (part, template, text) in shown() {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            let tag = tag(part);
            template.write(&mut out, |place| match place {
                Placeholder::Text => text,
                Placeholder::Tag => &tag,
                Placeholder::AnchorTag => &anchor_tag,
            });
        }
        let tagged = shown()
            .filter(|(_, template, text)| template.has(Placeholder::Tag) && !text.is_empty());
        let tags: Vec<String> = tagged.map(|(part, ..)| tag(part)).collect();
        let mut own_words: Vec<String> = shown()
            .flat_map(|(_, template, _)| sentences(template))
            .collect();
        // A JSON string has no raw line end, so a tag with one is no text of a string.
        own_words.extend(
            tags.iter()
                .flat_map(|name| [format!("<{name}>\n"), format!("</{name}>\n")]),
        );
        Rendered {
            text: out,
            tags,
            own_words,
        }
    }
}

/// [`Part::Instruction`] in fewer words: those of a longer document cost more than a short document.
static SHORT_INSTRUCTION: LazyLock<Option<Template>> = LazyLock::new(|| {
    "My connection dropped while I was receiving your answer. The message above is all that reached me. Please repeat \
     the text between the two tags below exactly, then go straight on with what follows it, to the end of the JSON \
     document. A word or number at the end of that text may be unfinished. Please write nothing else."
        .parse()
        .ok()
});

/// Returns the beginnings of a template's sentences, where they are long enough to be recognized
/// and have no placeholder.
fn sentences(template: &Template) -> Vec<String> {
    const PLACE: &str = "\0";
    let mut text = String::new();
    template.write(&mut text, |_| PLACE);
    let starts = text
        .split(['.', '?', '!', '\n'])
        .map(|sentence| sentence.trim_start().chars().take(OWN_CHARS).collect());
    let is_known = |start: &String| start.chars().count() == OWN_CHARS && !start.contains(PLACE);
    starts.filter(is_known).collect()
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
        let mut seen = 0;
        for part in Part::ALL {
            let template: Template = part.template().parse().unwrap();
            for start in sentences(&template) {
                assert!(start.starts_with(|c: char| c.is_uppercase()), "{start}");
                assert_eq!(start.chars().count(), OWN_CHARS);
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
    }
}
