//! The rule of the budget as written: the whole text is parsed into a tree, and each container
//! renders itself.

use std::collections::HashSet;

use restitch::internal::context::hierarchy_context_for_prompt;

use super::read;
use restitch_testing::Rng;
use restitch_testing::tree::Tree;

/// A value, complete or cut.
struct Node {
    start: usize,
    end: usize,
    whole: bool,
    /// Of a container.
    members: Option<Vec<Node>>,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn space(&self, mut at: usize) -> usize {
        while self.0.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    }

    fn string(&self, start: usize) -> Node {
        let mut at = start + 1;
        while at < self.0.len() && self.0[at] != b'"' {
            at += if self.0[at] == b'\\' { 2 } else { 1 };
        }
        let whole = at < self.0.len();
        Node {
            start,
            end: if whole { at + 1 } else { self.0.len() },
            whole,
            members: None,
        }
    }

    fn value(&self, start: usize) -> Node {
        match self.0[start] {
            b'"' => self.string(start),
            open @ (b'{' | b'[') => {
                let mut members = Vec::new();
                let mut at = self.space(start + 1);
                loop {
                    match self.0.get(at) {
                        None => break,
                        Some(b'}' | b']') => {
                            return Node {
                                start,
                                end: at + 1,
                                whole: true,
                                members: Some(members),
                            };
                        }
                        Some(b',') => at = self.space(at + 1),
                        Some(b'"') if open == b'{' => {
                            at = self.space(self.string(at).end);
                            if self.0.get(at) != Some(&b':') {
                                break;
                            }
                            at = self.space(at + 1);
                            if at < self.0.len() {
                                members.push(self.value(at));
                                at = self.space(members.last().unwrap().end);
                            }
                        }
                        Some(_) => {
                            members.push(self.value(at));
                            at = self.space(members.last().unwrap().end);
                        }
                    }
                }
                Node {
                    start,
                    end: self.0.len(),
                    whole: false,
                    members: Some(members),
                }
            }
            first => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let end = start
                    + self.0[start..]
                        .iter()
                        .take_while(|byte| is_part(byte))
                        .count();
                let literal = matches!(&self.0[start..end], b"true" | b"false" | b"null");
                let whole = if first.is_ascii_alphabetic() {
                    literal
                } else {
                    end < self.0.len()
                };
                Node {
                    start,
                    end,
                    whole,
                    members: None,
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Values,
    Hints,
    Outline,
    Keys,
    Nothing,
}

struct Rule<'a> {
    text: &'a str,
    left: usize,
    out: bool,
    hints: usize,
    /// Nothing more of this container is printed.
    full: bool,
    met: HashSet<&'static str>,
}

impl Rule<'_> {
    fn spend(&mut self, characters: usize) {
        self.left -= characters;
        self.test();
    }

    fn test(&mut self) {
        if self.left < 50 {
            (self.left, self.out) = (0, true);
        }
    }

    fn hint(&self, node: &Node) -> &'static str {
        match self.text.as_bytes()[node.start] {
            b'"' => "<str>",
            b'{' => "<object>",
            b'[' => "<array>",
            b't' | b'f' => "<bool>",
            b'n' => "<null>",
            _ => "<number>",
        }
    }

    /// Returns the text of a container after its bracket at `start`, up to the end of its last
    /// complete member.
    fn inside(
        &mut self,
        start: usize,
        members: &[Node],
        mut style: Style,
        is_open: bool,
    ) -> String {
        let is_object = self.text.as_bytes()[start] == b'{';
        let mut shown = Vec::new();
        let mut hidden = 0;
        for (at, node) in members.iter().enumerate().rev() {
            if style == Style::Values {
                self.test();
                if self.out {
                    style = Style::Hints;
                }
            }
            let is_container_object = self.hint(node) == "<object>";
            let value = match (style, &node.members) {
                _ if self.full => None,
                (Style::Nothing, _) => None,
                (Style::Values, Some(inner)) => Some(self.container(node, inner, Style::Values)),
                (Style::Values, None) => {
                    let written = &self.text[node.start..node.end];
                    let between = written
                        .strip_prefix('"')
                        .map_or(written, |rest| rest.strip_suffix('"').unwrap());
                    let size = between.chars().count();
                    if size <= self.left {
                        self.spend(size);
                        Some(written.to_owned())
                    } else {
                        self.count(self.hint(node))
                    }
                }
                (Style::Hints, _) => self.count(self.hint(node)),
                (Style::Keys, _) => self.count("…"),
                (Style::Outline, Some(inner)) if is_container_object && (self.hints > 0) => {
                    self.hints -= usize::from(is_object);
                    self.met.insert("outline");
                    Some(self.container(node, inner, Style::Keys))
                }
                (Style::Outline, Some(inner)) if is_object && self.hints > 0 => {
                    self.hints -= 1;
                    Some(self.container(node, inner, Style::Nothing))
                }
                (Style::Outline, _) if is_object => self.count("…"),
                (Style::Outline, _) => {
                    self.full |= self.hints == 0;
                    None
                }
            };
            let Some(value) = value else {
                hidden = at + 1;
                self.met.insert("members");
                break;
            };
            shown.push((at, value));
            if self.out && style == Style::Values {
                // The budget ran out in this container or in one inside it.
                let is_here = node.members.is_none();
                style = match (is_here, is_open, is_object) {
                    (true, _, _) => Style::Hints,
                    (false, true, _) => Style::Outline,
                    (false, false, true) => Style::Keys,
                    (false, false, false) => Style::Nothing,
                };
                self.met
                    .insert(if is_here { "out here" } else { "out below" });
            }
        }
        let mut out = String::new();
        let mut behind = start + 1;
        if hidden > 0 {
            out.push_str(&format!("… {hidden} members …"));
            behind = members[hidden - 1].end;
        }
        for (at, value) in shown.iter().rev() {
            out.push_str(&self.text[behind..members[*at].start]);
            out.push_str(value);
            behind = members[*at].end;
        }
        out
    }

    fn count(&mut self, shown: &'static str) -> Option<String> {
        if self.hints == 0 {
            self.full = true;
            return None;
        }
        self.hints -= 1;
        self.met.insert(shown);
        Some(shown.to_owned())
    }

    /// Renders a complete container.
    fn container(&mut self, node: &Node, members: &[Node], style: Style) -> String {
        let inside = self.inside(node.start, members, style, false);
        let behind = members.last().map_or(node.start + 1, |last| last.end);
        format!(
            "{}{inside}{}",
            &self.text[node.start..=node.start],
            &self.text[behind..node.end]
        )
    }
}

/// Renders a text that is cut inside its root.
fn reference(text: &str, budget: usize, met: &mut HashSet<&'static str>) -> String {
    let reader = Reader(text.as_bytes());
    let start = reader.space(0);
    let root = reader.value(start);
    let mut rule = Rule {
        text,
        left: budget,
        out: false,
        hints: 16,
        full: false,
        met: HashSet::new(),
    };
    let mut path = vec![&root];
    while let Some(last) = path
        .last()
        .unwrap()
        .members
        .as_ref()
        .and_then(|members| members.last())
        && !last.whole
    {
        path.push(last);
    }
    let mut out = String::new();
    let mut end = text.len();
    let mut style = Style::Values;
    let last = *path.last().unwrap();
    if last.members.is_none() {
        path.pop();
        let from = last.start + usize::from(text.as_bytes()[last.start] == b'"');
        let size = text[from..].chars().count();
        if size > budget {
            let skipped = text[from..]
                .chars()
                .take(size - budget)
                .map(char::len_utf8)
                .sum::<usize>();
            out = format!("…{}", &text[from + skipped..]);
            (rule.left, rule.out) = (0, true);
            end = from;
        } else {
            rule.spend(size);
        }
        if rule.out {
            style = Style::Hints;
            rule.met.insert("cut value");
        }
    }
    for node in path.iter().rev() {
        let members: Vec<Node> = reader.value(node.start).members.unwrap();
        let whole = members.iter().take_while(|member| member.whole).count();
        (rule.hints, rule.full) = (16, false);
        let inside = rule.inside(node.start, &members[..whole], style, true);
        let behind = members[..whole]
            .last()
            .map_or(node.start + 1, |last| last.end);
        out = format!(
            "{}{inside}{}{out}",
            &text[node.start..=node.start],
            &text[behind..end]
        );
        end = node.start;
        style = if rule.out {
            Style::Outline
        } else {
            Style::Values
        };
    }
    met.extend(rule.met);
    out
}

#[test]
fn the_rendering_follows_the_rule() {
    let mut rng = Rng::new(4);
    let (mut cuts, mut met) = (0, HashSet::new());
    for seed in 0..400 {
        let text = match seed % 8 {
            // Many members.
            0 => {
                let rows: Vec<String> = (0..30)
                    .map(|_| Tree::random(&mut rng, 2).write(&mut rng))
                    .collect();
                format!("{{\"rows\": [{}], \"more\": 1}}", rows.join(",\n"))
            }
            _ => Tree::random(&mut rng, 5).write(&mut rng),
        };
        if !text.starts_with(['{', '[']) {
            continue;
        }
        let step = 1 + text.len() / 150;
        for cut in (1..text.len()).filter(|cut| cut % step == 0 && text.is_char_boundary(*cut)) {
            let text = &text[..cut];
            let (document, index) = read(text);
            for budget in [
                0,
                1 + rng.below(49),
                50 + rng.below(30),
                80 + rng.below(200),
            ] {
                let expect = reference(text, budget, &mut met);
                for index in [None, Some(&index)] {
                    let found = hierarchy_context_for_prompt(&document, index, budget);
                    assert_eq!(found.text, expect, "{text} at {budget}");
                    assert!(found.spent <= budget);
                }
                cuts += 1;
            }
        }
    }
    for what in [
        "cut value",
        "out here",
        "out below",
        "outline",
        "members",
        "…",
        "<str>",
        "<number>",
        "<array>",
    ] {
        assert!(met.contains(what), "{what}");
    }
    println!("covered: {cuts} renderings");
    assert!(cuts > 10_000);
}
