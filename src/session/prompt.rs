//! The user's message that asks for the rest: parts, each with a template that can be replaced or switched off.

use super::tags;
use super::template::{Place, Template, TemplateError};

/// A part of the prompt. [`Part::ALL`] is the order in which they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// What was delivered, in short.
    DeliveredSummary,
    /// The last whole element before the cut.
    ElementBeforeCutoff,
    /// The element that stops in the middle.
    CutOffElement,
    /// What is to be done.
    Instruction,
    /// How much there is of it, in percent. Off unless it is switched on.
    Progress,
    /// The text that is to be repeated.
    Anchor,
}

impl Part {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::DeliveredSummary,
        Self::ElementBeforeCutoff,
        Self::CutOffElement,
        Self::Instruction,
        Self::Progress,
        Self::Anchor,
    ];

    /// Its name: that of its tag, and in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeliveredSummary => "delivered_summary",
            Self::ElementBeforeCutoff => "element_before_cutoff",
            Self::CutOffElement => "cut_off_element",
            Self::Instruction => "instruction",
            Self::Progress => "progress",
            Self::Anchor => "overlap_context",
        }
    }

    /// What it says unless it is replaced.
    ///
    /// First person, and nothing that sounds like an operator: such notices were seen to be refused as injections.
    pub fn template(self) -> &'static str {
        match self {
            Self::DeliveredSummary => "So far I have this:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::ElementBeforeCutoff => "The last element that I have whole:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::CutOffElement => "The element in which it stops:\n\n<{{tag}}>\n{{text}}\n</{{tag}}>",
            Self::Instruction => {
                "My connection dropped while I was receiving your answer. The message above is all that reached me: it \
                 stops in the middle of the JSON document. Please carry on, so that I can append what you write to \
                 what I have. First repeat the text between the two tags below, exactly as it stands there, then go \
                 straight on with what follows it, to the end of the document. Please write nothing else: no \
                 explanation, no code fence, and nothing that stands before that text."
            }
            // The question is the specification's (`kpi_question`).
            Self::Progress => {
                "With one exception: begin with a line of its own, `PROGRESS: ` and a number, and only then repeat the \
                 text. Based on the delivered data so far, approximately what percentage (%) of the total required \
                 content has been delivered? Respond with an integer between 0-100."
            }
            Self::Anchor => "<{{tag}}>\n{{text}}\n</{{tag}}>",
        }
    }
}

/// What is known at a cut, for the prompt. `None`: the part is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts<'a> {
    /// All text that was delivered.
    pub delivered: &'a str,
    /// The tail of it that is to be repeated.
    pub anchor: &'a str,
    /// A rendering that stands for the delivered text where that is too long; it ends as the text does.
    pub hierarchy_context: Option<&'a str>,
    /// See [`Part::DeliveredSummary`].
    pub delivered_summary: Option<&'a str>,
    /// See [`Part::ElementBeforeCutoff`].
    pub element_before_cutoff: Option<&'a str>,
    /// See [`Part::CutOffElement`].
    pub cut_off_element: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// What is known at every cut.
    pub fn new(delivered: &'a str, anchor: &'a str) -> Self {
        Self { delivered, anchor, ..Self::default() }
    }

    fn text(&self, part: Part) -> Option<&'a str> {
        match part {
            Part::DeliveredSummary => self.delivered_summary,
            Part::ElementBeforeCutoff => self.element_before_cutoff,
            Part::CutOffElement => self.cut_off_element,
            Part::Instruction | Part::Progress => Some(""),
            Part::Anchor => Some(self.anchor),
        }
    }
}

/// The templates of a prompt.
///
/// ```
/// use restitch::session::{Part, Prompt};
/// use restitch::internal::prompt::{Parts};
///
/// let prompt = Prompt::default().with(Part::Instruction, Some("Bitte weiter, ab <{{anchor_tag}}>:"))?;
/// let text = prompt.render(&Parts::new("[\"a\", \"b", "\"a\", \"b"));
/// assert_eq!(text, "Bitte weiter, ab <overlap_context>:\n\n<overlap_context>\n\"a\", \"b\n</overlap_context>");
/// # Ok::<(), restitch::session::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// In the order of the parts.
    templates: Vec<(Part, Template)>,
}

impl Default for Prompt {
    fn default() -> Self {
        let on = Part::ALL.into_iter().filter(|part| *part != Part::Progress);
        // The templates of this module have no wrong places.
        let templates = on.filter_map(|part| Some((part, part.template().parse().ok()?))).collect();
        Self { templates }
    }
}

impl Prompt {
    /// With another template for a part; `None`: without the part.
    ///
    /// # Errors
    /// The template names a place that there is none of.
    pub fn with(mut self, part: Part, template: Option<&str>) -> Result<Self, TemplateError> {
        let template = template.map(str::parse).transpose()?;
        self.templates.retain(|(other, _)| *other != part);
        if let Some(template) = template {
            self.templates.push((part, template));
            self.templates.sort_by_key(|(part, _)| *part);
        }
        Ok(self)
    }

    /// The template of a part, if that is on.
    pub fn template(&self, part: Part) -> Option<&Template> {
        self.templates.iter().find(|(other, _)| *other == part).map(|(_, template)| template)
    }

    /// Whether the anchor is asked for.
    pub fn has_anchor(&self) -> bool {
        self.template(Part::Anchor).is_some_and(|template| template.has(Place::Text))
    }

    /// The user's message. Its tags are ones that occur in none of the parts' texts.
    pub fn render(&self, parts: &Parts<'_>) -> String {
        let shown = || self.templates.iter().filter_map(|(part, template)| Some((*part, template, parts.text(*part)?)));
        let mut names: Vec<&str> =
            shown().filter(|(.., text)| !text.is_empty()).map(|(part, ..)| part.as_str()).collect();
        names.push(Part::Anchor.as_str());
        // What the assistant's message holds is near enough to be mistaken, too.
        let texts: Vec<&str> = shown().map(|(.., text)| text).chain([parts.delivered]).collect();
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
                Place::Text => text,
                Place::Tag => &tag,
                Place::AnchorTag => &anchor_tag,
            });
        }
        out
    }
}
