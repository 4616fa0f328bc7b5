//! The one writer of all APIs: the values that fill their templates.

use serde_json::Value;

use super::super::token::Token;
use super::template::fill;
use super::{Finish, Message, Moment, Part, Problem, Wire};

/// A moment of an answer in an API.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    wire: &'a Wire,
    message: &'a Message,
    moment: Moment,
    /// How many events of the stream precede the moment, and how many precede the event.
    sent: u64,
    sequence: u64,
    problem: Option<&'a Problem<'a>>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(wire: &'a Wire, message: &'a Message, moment: Moment) -> Self {
        Self {
            wire,
            message,
            moment,
            sent: 0,
            sequence: 0,
            problem: (moment == Moment::Error).then_some(&Problem::UPSTREAM),
        }
    }

    pub(super) fn of_problem(
        wire: &'a Wire,
        message: &'a Message,
        problem: &'a Problem<'a>,
    ) -> Self {
        Self {
            problem: Some(problem),
            ..Self::new(wire, message, Moment::Error)
        }
    }

    /// Returns the scene of an event after `sequence` others, in a moment after `sent` events.
    pub(super) fn after(self, sent: u64, sequence: u64) -> Self {
        Self {
            sent,
            sequence,
            ..self
        }
    }

    /// Returns the section of this name for the kind of the part, or else that for all parts.
    fn section(&self, name: &str) -> Option<&'static str> {
        let template = &self.wire.template;
        let of_kind = |kind: &&str| template.get(&format!("{name}.{kind}"));
        self.kinds()
            .iter()
            .find_map(of_kind)
            .or_else(|| template.get(name))
    }

    /// Writes the first of these sections that the API has; empty if it has none.
    pub(super) fn text(&self, names: &[&str]) -> String {
        let section = names.iter().find_map(|name| self.section(name));
        let text = section.and_then(|section| self.line(section));
        text.unwrap_or_default()
    }

    /// Returns the templates of the moment's events.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'static str> + use<> {
        let name = match self.moment {
            Moment::Start => "start",
            Moment::Open(_) => "open",
            Moment::Delta { .. } => "delta",
            Moment::Close(_) => "close",
            Moment::Finish => "finish",
            Moment::Done => "done",
            Moment::Error => "error",
            Moment::Body => "body",
            Moment::Item(_) => "item",
            Moment::Malformed => "malformed",
        };
        self.section(name).unwrap_or_default().lines()
    }

    /// Fills a template; `None` if a value is missing.
    pub(super) fn line(&self, template: &str) -> Option<String> {
        let value = |name: &str| self.value(name);
        let Some((name, rest)) = template.strip_prefix('@').and_then(|it| it.split_once(' '))
        else {
            return fill(template, &value);
        };
        let it = fill(rest, &value)?;
        let with_it = |name: &str| match name {
            "it" => Some(it.clone()),
            name => self.value(name),
        };
        fill(self.section(name)?, &with_it)
    }

    /// Returns the number of the part that the moment is about.
    fn at(&self) -> usize {
        match self.moment {
            Moment::Open(at) | Moment::Close(at) | Moment::Item(at) => at,
            Moment::Delta { part, .. } => part,
            _ => 0,
        }
    }

    fn part(&self) -> Option<&'a Part> {
        self.message.parts.get(self.at())
    }

    /// Returns the kinds of the part, the most special one first.
    fn kinds(&self) -> &'static [&'static str] {
        match self.part() {
            Some(Part::Reasoning(_)) => &["reasoning"],
            Some(Part::Text(_)) if self.has_plan() => &["plan"],
            Some(Part::Text(_)) => &["text"],
            Some(Part::Call {
                is_custom: true, ..
            }) => &["custom", "call"],
            Some(Part::Call { .. }) => &["call"],
            None => &[],
        }
    }

    /// Returns whether the text is a plan: in some APIs, text beside calls.
    fn has_plan(&self) -> bool {
        self.wire.template.get("delta.plan").is_some()
            && self.message.parts.iter().any(Part::is_call)
    }

    /// Returns the finish that is written in this moment.
    fn finish(&self) -> Option<Finish> {
        let (at, last) = (self.at(), self.message.parts.len().saturating_sub(1));
        let is_here = match (self.moment, self.part()) {
            (Moment::Finish | Moment::Body, _) => true,
            (Moment::Delta { end, .. }, Some(Part::Text(text))) => at == last && end == text.len(),
            (Moment::Close(_), _) => at == last,
            _ => false,
        };
        self.message.finish.filter(|_| is_here)
    }

    /// Returns the word of a finish in a table.
    fn word(&self, table: &str, finish: Option<Finish>) -> Option<String> {
        let words = self.wire.template.get(&format!("{table}?"))?;
        let column = finish.map_or(4, |finish| finish as usize);
        let word = words.split(' ').nth(column)?;
        (word != "-").then(|| word.to_owned())
    }

    /// Returns the text of the parts that are wanted, quoted.
    fn joined(&self, is_wanted: fn(&Part) -> bool) -> Option<String> {
        let parts = self.message.parts.iter().filter(|part| is_wanted(part));
        let text: String = parts.map(Part::text).collect();
        (!text.is_empty()).then(|| quoted(&text))
    }

    /// Writes the parts that are wanted.
    fn list(&self, is_wanted: fn(&Part) -> bool) -> String {
        let parts = self.message.parts.iter().enumerate();
        let items = parts
            .filter(|(_, part)| is_wanted(part))
            .filter_map(|(at, _)| {
                let item = Self {
                    moment: Moment::Item(at),
                    ..*self
                };
                item.line(item.section("item")?)
            });
        items.collect::<Vec<_>>().join(",")
    }

    /// Returns how many of the parts before this one are wanted.
    fn count(&self, is_wanted: fn(&Part) -> bool) -> String {
        let before = self.message.parts.iter().take(self.at());
        before.filter(|part| is_wanted(part)).count().to_string()
    }

    /// Returns the estimated tokens of everything but reasoning, once the answer ends.
    fn completion(&self) -> Option<usize> {
        let is_end = matches!(self.moment, Moment::Finish | Moment::Done | Moment::Body);
        let parts = self.message.parts.iter();
        let counted = parts.filter(|part| !matches!(part, Part::Reasoning(_)));
        let bytes: usize = counted.map(|part| part.text().len()).sum();
        (is_end || self.finish().is_some()).then_some(bytes / 4)
    }

    /// Returns the token of a response: every second one has a token, and the last one of an answer
    /// that can be continued.
    fn token(&self) -> Option<Token> {
        let bytes = match (self.moment, self.part()) {
            (Moment::Delta { end, .. }, Some(Part::Text(_))) => end,
            (Moment::Finish, _) => 0,
            (Moment::Body, _) => {
                let parts = self.message.parts.iter();
                let texts = parts.filter(|part| matches!(part, Part::Text(_)));
                texts.map(|part| part.text().len()).sum()
            }
            _ => return None,
        };
        let has_token = match self.finish() {
            Some(finish) => finish == Finish::Length,
            None => self.sent % 2 == 1,
        };
        self.message.tokens.filter(|_| has_token)?.after(bytes)
    }

    /// Returns the value of a name in a template: of the answer, of the part, or of the problem. Any
    /// other name is that of a section.
    fn value(&self, name: &str) -> Option<String> {
        let (message, part) = (self.message, self.part());
        let is_end = matches!(self.moment, Moment::Finish | Moment::Body);
        let is_body = self.moment == Moment::Body;
        let empty_if = |is_so: bool| is_so.then(String::new);
        let delta = match (self.moment, part) {
            (Moment::Delta { start, end, .. }, Some(part)) => {
                part.text().get(start..end).map(quoted)
            }
            _ => None,
        };
        match name {
            "number" => Some(message.number.to_string()),
            "padded" => Some(format!("{:08}", message.number % 100_000_000)),
            "created" => Some((CREATED + message.number).to_string()),
            "second" => Some(format!("{:02}", message.number % 60)),
            "sent" => Some(format!("{:09}", self.sent)),
            "sequence" => Some(self.sequence.to_string()),
            "model" => Some(quoted(&message.model)),
            "asked" => empty_if(message.include_usage),
            "prompt" => Some(message.prompt_tokens.to_string()),
            "completion" => Some(self.completion()?.to_string()),
            "total" => {
                Some((message.prompt_tokens + self.completion().unwrap_or_default()).to_string())
            }
            "finish" | "status" | "details" | "ending" => self.word(name, self.finish()),
            "continues" => {
                let is_limited = message.tokens.is_none_or(|tokens| tokens.is_limited);
                let is_length = self.finish() == Some(Finish::Length);
                empty_if(is_length && !is_limited && self.token().is_some())
            }
            "token" => Some(self.token()?.to_string()),
            // No part has carried the finish.
            "alone" => match message.parts.last() {
                Some(Part::Text(text)) => empty_if(text.is_empty()),
                Some(part @ Part::Call { .. }) => empty_if(object(part).is_none()),
                _ => empty_if(true),
            },
            "items" if is_end => Some(self.list(|_| true)),
            "items" => Some(String::new()),
            "calls" => Some(self.list(Part::is_call)).filter(|list| is_body && !list.is_empty()),
            "contents" => Some(self.list(|part| !part.is_call())).filter(|list| !list.is_empty()),
            "text" if is_body => self.joined(is_text).or_else(|| Some(quoted(""))),
            "text" => delta
                .filter(|_| part.is_some_and(is_text))
                .or_else(|| Some(quoted(""))),
            "said" if message.parts.iter().any(Part::is_call) => self.joined(is_text),
            "said" => self.value("text"),
            "plan" => self.joined(is_text).filter(|_| self.has_plan()),
            "reasoning" if is_body => self.joined(is_reasoning),
            "reasoning" => delta.filter(|_| part.is_some_and(is_reasoning)),
            "at" => Some(self.at().to_string()),
            "first" => empty_if(self.at() == 0),
            "call" => Some(self.count(Part::is_call)),
            "slot" => Some(self.count(|part| !part.is_call())),
            "delta" => delta,
            "padding" => Some(padding(self.sent, delta?.len())),
            "whole" => Some(quoted(part?.text())),
            "object" => object(part?),
            "tool" => match part? {
                Part::Call { tool, .. } => Some(quoted(tool)),
                _ => None,
            },
            "state" => {
                let is_cut = matches!(message.finish, Some(Finish::Length | Finish::Filter));
                let is_last = self.at() + 1 == message.parts.len();
                let is_incomplete = is_cut && is_last;
                let state = if is_incomplete {
                    "incomplete"
                } else {
                    "completed"
                };
                Some(state.to_owned())
            }
            // After reasoning, a call is signed.
            "signed" => {
                let before = message.parts.iter().take(self.at()).next_back();
                let is_after = before.is_some_and(|part| !part.is_call());
                empty_if(is_after && message.parts.first().is_some_and(is_reasoning))
            }
            "failed" => self.problem.map(|_| name.to_owned()),
            "http" => Some(self.problem?.status.as_u16().to_string()),
            "message" => Some(quoted(self.problem?.message)),
            "code" => Some(Value::from(self.problem?.code).to_string()),
            "kind" => Some(quoted(self.kind(self.problem?))),
            name => self.line(self.section(name)?),
        }
    }

    /// Returns the kind of a problem: the one that the API has for the start of its status.
    fn kind(&self, problem: &'a Problem<'a>) -> &'a str {
        let kinds = self.wire.template.get("kinds").unwrap_or_default();
        let kinds = kinds.lines().filter_map(|line| line.split_once(' '));
        let mut own = kinds.filter(|(status, _)| problem.status.as_str().starts_with(status));
        own.next().map_or(problem.kind, |(_, kind)| kind)
    }
}

fn is_text(part: &Part) -> bool {
    matches!(part, Part::Text(_))
}

fn is_reasoning(part: &Part) -> bool {
    matches!(part, Part::Reasoning(_))
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns whole arguments as JSON in one line; `None` if they are cut or not JSON.
fn object(part: &Part) -> Option<String> {
    let Part::Call {
        arguments,
        is_whole: true,
        ..
    } = part
    else {
        return None;
    };
    serde_json::from_str(arguments)
        .ok()
        .map(|value: Value| value.to_string())
}

/// Returns letters that hide the length of a delta: others in each event.
fn padding(number: u64, length: usize) -> String {
    let letters = "nRq7cXw2LhT5zKbYmE0aJvP9";
    let at = |step: u64| usize::try_from((number * 7 + step * 5) % letters.len() as u64).ok();
    (0..16 - (length % 16) as u64)
        .filter_map(|step| letters.chars().nth(at(step)?))
        .collect()
}

/// The time of answer 0, in seconds since 1970. A constant, so that answers are the same in every
/// run.
const CREATED: u64 = 1_750_000_000;
