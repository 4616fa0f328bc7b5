//! The numbers of a stream's tool calls. Several servers leave them out, or give the same number to
//! all.

/// The calls of a stream, in the order of their first pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<ChatCall>);

#[derive(Clone, Debug)]
struct ChatCall {
    choice: u32,
    /// The number that the server writes.
    written: Option<u32>,
    id: Option<String>,
    index: u32,
}

/// The most calls that are remembered. Only the server's numbers distinguish further calls.
const MOST: usize = 256;

impl Calls {
    /// Returns the number of the call that a piece belongs to. A new id begins a new call; a piece
    /// without an id belongs to the last call with its number, or to the last call if it has none.
    /// `at`: the position of the piece in its event.
    pub(super) fn place(
        &mut self,
        choice: u32,
        written: Option<u32>,
        id: Option<&str>,
        at: usize,
    ) -> u32 {
        let calls = || {
            self.0
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, call)| call.choice == choice)
        };
        let known: Option<(usize, &ChatCall)> = match (id, written) {
            (Some(id), _) => {
                let same = calls().find(|(_, call)| call.id.as_deref() == Some(id));
                // The id may follow in a later piece.
                same.or_else(|| {
                    calls()
                        .find(|(_, call)| call.id.is_none() && call.written == written && at == 0)
                })
            }
            (None, Some(_)) => calls().find(|(_, call)| call.written == written),
            (None, None) => calls().next().filter(|_| at == 0),
        };
        let next = calls()
            .map(|(_, call)| call.index.saturating_add(1))
            .max()
            .unwrap_or_default();
        let is_free = |index: &u32| calls().all(|(_, call)| call.index != *index);
        let index = written.filter(is_free).unwrap_or(next);
        if let Some(known) = known
            .map(|(known, _)| known)
            .and_then(|known| self.0.get_mut(known))
        {
            known.id = known.id.take().or_else(|| id.map(str::to_owned));
            return known.index;
        }
        if self.0.len() < MOST {
            self.0.push(ChatCall {
                choice,
                written,
                id: id.map(str::to_owned),
                index,
            });
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;

    fn check(pieces: &[(Option<u32>, Option<&str>, usize, u32)]) {
        let mut calls = Calls::default();
        for (written, id, at, expected) in pieces {
            assert_eq!(
                calls.place(0, *written, *id, *at),
                *expected,
                "{written:?} {id:?} {at} of {pieces:?}"
            );
        }
        // Each choice has calls of its own.
        assert_eq!(calls.place(1, None, Some("a"), 0), 0);
    }

    #[test]
    fn pieces_find_their_calls() {
        check(&[
            (Some(0), Some("a"), 0, 0),
            (Some(0), None, 0, 0),
            (Some(1), Some("b"), 0, 1),
            (Some(1), None, 0, 1),
        ]);
        // The id is repeated, or follows later.
        check(&[(Some(0), Some("a"), 0, 0), (Some(0), Some("a"), 0, 0)]);
        check(&[
            (Some(0), None, 0, 0),
            (Some(0), Some("a"), 0, 0),
            (Some(0), None, 0, 0),
        ]);
        // No numbers.
        check(&[
            (None, Some("a"), 0, 0),
            (None, None, 0, 0),
            (None, Some("b"), 0, 1),
            (None, None, 0, 1),
        ]);
        check(&[(None, Some("a"), 0, 0), (None, Some("b"), 1, 1)]);
        check(&[(None, None, 0, 0), (None, None, 1, 1)]);
        // The same number for all.
        check(&[
            (Some(0), Some("a"), 0, 0),
            (Some(0), Some("b"), 0, 1),
            (Some(0), None, 0, 1),
            (Some(0), Some("a"), 0, 0),
        ]);
        // Numbers that begin elsewhere.
        check(&[
            (Some(3), Some("a"), 0, 3),
            (Some(4), Some("b"), 0, 4),
            (None, Some("c"), 0, 5),
        ]);
    }
}
