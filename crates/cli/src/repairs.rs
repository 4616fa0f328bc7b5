//! Reports repairs to people, a line each, and how a text with repairs ended.

use super::Exit;
use super::console::{Notes, count, short};
use restitch::SourceLocation;
use restitch::repair::{Repair, RepairStatus};
use restitch::shape::{Root, Violation};

/// Reports each repair. Does so on a terminal only, unless `is_logged`.
pub(super) fn note_repairs(
    name: &str,
    text: &str,
    repairs: &[Repair],
    is_logged: bool,
    notes: Notes,
) {
    if !is_logged && !notes.on_terminal() {
        return;
    }
    let mut position = RepairPosition::default();
    for repair in repairs {
        position.advance(text, repair.range.start);
        let RepairPosition { line, column, .. } = position;
        let path = if repair.path.is_empty() {
            String::new()
        } else {
            format!(", at {}", short(&repair.path))
        };
        notes.note(format_args!(
            "{name}: line {line}, column {column}{path}: {}: `{}` -> `{}`",
            repair.rule,
            short(&repair.original),
            short(&repair.replacement)
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
    notes: Notes,
) {
    match status {
        RepairStatus::Malformed(error) => notes.note(format_args!(
            "{name}: {}, {}",
            error.kind,
            SourceLocation::at(text, error.offset)
        )),
        RepairStatus::Truncated => notes.note(format_args!(
            "{name}: the text ends before its root is closed"
        )),
        _ => {}
    }
    if !others.is_empty() {
        notes.note(format_args!(
            "{name}: left out {}: --json shows them",
            count(others.len(), "further root")
        ));
    }
}

/// Reports how a value differs from the expected shape.
pub(super) fn note_violations(name: &str, violations: &[Violation], notes: Notes) {
    for Violation { path, message, .. } in violations {
        let path = if path.is_empty() {
            "the root".into()
        } else {
            short(path)
        };
        notes.note(format_args!("{name}: {path}: {message}"));
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
