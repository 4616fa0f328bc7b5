//! Reports repairs to people, a line each, and how a text with repairs ended.

use super::Exit;
use super::console::{Notes, count, place, short};
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
    // The text is walked once: `from` is where the last repair begins.
    let (mut from, mut line, mut column) = (0, 1, 1);
    for repair in repairs {
        let passed = text.get(from..repair.range.start).unwrap_or_default();
        let end = SourceLocation::at(passed, passed.len());
        let before = if end.line == 1 { column - 1 } else { 0 };
        (line, column) = (line + end.line - 1, before + end.column);
        from = repair.range.start.max(from);
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
    note_others(name, others.len(), notes);
}

/// Reports how many roots of a text are not in the answer.
pub(super) fn note_others(name: &str, others: usize, notes: Notes) {
    if others > 0 {
        let roots = count(others, "further root");
        notes.note(format_args!("{name}: left out {roots}: --json shows them"));
    }
}

/// Reports how a value differs from the expected shape.
pub(super) fn note_violations(name: &str, violations: &[Violation], notes: Notes) {
    for Violation { path, message, .. } in violations {
        notes.note(format_args!("{name}: {}: {message}", short(place(path))));
    }
}
