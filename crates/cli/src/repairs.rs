//! Shows repairs to people: a line each, or as changes of the text.

use super::console::{count, short};
use super::{Console, Exit};
use restitch::SourceLocation;
use restitch::repair::{Repair, RepairStatus};
use restitch::shape::{Root, Violation};

/// Writes each repair: in one line, or with the changed text below it.
pub(super) fn print(name: &str, text: &str, repairs: &[Repair], in_lines: bool, console: &Console) {
    if !in_lines && !console.notes.on_terminal() {
        return;
    }
    let mut position = RepairPosition::default();
    let most = if in_lines { usize::MAX } else { MAX_CHANGES };
    for repair in repairs.iter().take(most) {
        position.advance(text, repair.range.start);
        let RepairPosition { line, column, .. } = position;
        let path = if repair.path.is_empty() {
            String::new()
        } else {
            format!(", at {}", short(&repair.path))
        };
        let place = format!(
            "{name}: line {line}, column {column}{path}: {}",
            repair.rule
        );
        if in_lines {
            let (before, after) = (short(&repair.original), short(&repair.replacement));
            console
                .notes
                .note(format_args!("{place}: `{before}` -> `{after}`"));
        } else {
            console.notes.note(place);
            let (before, after) = around(text, repair);
            console.notes.change(
                &format!("{before}{}{after}", short(&repair.original)),
                &format!("{before}{}{after}", short(&repair.replacement)),
            );
        }
    }
    if repairs.len() > most {
        console.notes.note(format_args!(
            "{name}: {} more: --log lists all",
            count(repairs.len() - most, "repair")
        ));
    }
}

/// Returns the exit code for how a text ended.
pub(super) fn exit(status: RepairStatus) -> Exit {
    match status {
        RepairStatus::Valid | RepairStatus::Repaired => Exit::Complete,
        RepairStatus::Truncated => Exit::Cut,
        RepairStatus::Malformed(_) => Exit::Invalid,
    }
}

/// Reports how an incomplete text ended, and its other roots.
pub(super) fn note_status(
    name: &str,
    text: &str,
    status: RepairStatus,
    others: &[Root<'_>],
    console: &Console,
) {
    match status {
        RepairStatus::Malformed(error) => {
            console.notes.note(format_args!(
                "{name}: {}, {}",
                error.kind,
                SourceLocation::at(text, error.offset)
            ));
        }
        RepairStatus::Truncated => console.notes.note(format_args!(
            "{name}: the text ends before its root is closed"
        )),
        _ => {}
    }
    if !others.is_empty() {
        console.notes.note(format_args!(
            "{name}: left out {}: --json shows them",
            count(others.len(), "further root")
        ));
    }
}

/// Reports how a value differs from the expected shape.
pub(super) fn note_violations(name: &str, violations: &[Violation], console: &Console) {
    for Violation { path, message, .. } in violations {
        let path = if path.is_empty() {
            "the root".into()
        } else {
            short(path)
        };
        console
            .notes
            .note(format_args!("{name}: {path}: {message}"));
    }
}

/// A position in a text that is walked once.
#[derive(Clone, Copy)]
struct RepairPosition {
    at: usize,
    line: usize,
    column: usize,
}

impl Default for RepairPosition {
    fn default() -> Self {
        Self {
            at: 0,
            line: 1,
            column: 1,
        }
    }
}

impl RepairPosition {
    fn advance(&mut self, text: &str, to: usize) {
        let passed = text.get(self.at..to).unwrap_or_default();
        if let Some((lines, last)) = passed.rsplit_once('\n') {
            self.line += 1 + lines.bytes().filter(|byte| *byte == b'\n').count();
            self.column = 1;
            self.column += last.chars().count();
        } else {
            self.column += passed.chars().count();
        }
        self.at = to.max(self.at);
    }
}

/// Returns the text of the line before and after a repair, up to [`SourceLocation::EXCERPT`] characters on
/// each side.
fn around<'t>(text: &'t str, repair: &Repair) -> (&'t str, &'t str) {
    let before = text.get(..repair.range.start).unwrap_or_default();
    let near = before
        .char_indices()
        .rev()
        .take(SourceLocation::EXCERPT)
        .take_while(|(_, c)| *c != '\n')
        .last();
    let after = text.get(repair.range.end..).unwrap_or_default();
    let end = after
        .char_indices()
        .take(SourceLocation::EXCERPT)
        .take_while(|(_, c)| *c != '\n')
        .last();
    let before = before
        .get(near.map_or(before.len(), |(at, _)| at)..)
        .unwrap_or_default();
    (
        before,
        after
            .get(..end.map_or(0, |(at, c)| at + c.len_utf8()))
            .unwrap_or_default(),
    )
}

/// Changes that are shown on a terminal.
const MAX_CHANGES: usize = 50;
