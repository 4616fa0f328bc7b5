//! The suffix automaton of a text: which pieces occur in it, how often, and what follows them.
//!
//! A state stands for the pieces that end at the same offsets: they are suffixes of the longest of
//! them. Its link leads to the state of their shorter suffixes, which end at more offsets. A push
//! takes constant time on average (Blumer et al., "The smallest automaton recognizing the subwords
//! of a text", 1985), and the counts a step for each link, of which a counted piece has at most 65.

/// The length of the longest pieces that are looked up.
pub(super) const LONGEST: u16 = 64;

/// The length of the longest pieces that are counted: those that are looked up, and a byte.
const COUNTED: u16 = LONGEST + 1;

/// The most bytes of the text. There are at most two states and three edges for each, and
/// sixteen bits number them.
pub(super) const MOST: usize = 16 << 10;

/// The number of a state.
type StateId = u16;

/// The state of the empty piece.
const ROOT: StateId = 0;

/// No state, or no edge.
const NONE: u16 = u16::MAX;

/// The automaton of the text so far.
#[derive(Clone, Debug)]
pub(super) struct Suffixes {
    states: Vec<State>,
    edges: Vec<Edge>,
    /// Where the edges of the root lead, by their bytes: each byte that occurs has one.
    root: Box<[StateId; 256]>,
    /// The state of the whole text.
    whole: StateId,
    /// The longest counted piece at the end of the text.
    end: Piece,
}

/// The pieces that end at the same offsets.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The length of the longest one.
    length: u16,
    /// The state of its longest suffix that ends at more offsets.
    link: StateId,
    /// The number of the offsets, if a piece is short enough to be counted.
    count: u16,
    /// One of them is the end of the text.
    is_end: bool,
    /// The bytes that follow, as a list of edges. The first edge is the oldest, which is the
    /// most frequent one in most states.
    edge: u16,
    /// Their number.
    distinct: u16,
}

/// A byte that follows the pieces of a state.
#[derive(Clone, Copy, Debug)]
struct Edge {
    byte: u8,
    /// The state of the pieces with this byte.
    to: StateId,
    /// The next edge of the same state.
    next: u16,
}

/// A piece of the text that is short enough to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    state: StateId,
    pub(super) length: u16,
}

impl Piece {
    /// Whether both end at the same offsets.
    pub(super) fn is_alike(self, other: Self) -> bool {
        self.state == other.state
    }
}

/// The bytes that follow a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Followers {
    /// Their number.
    pub(super) total: u16,
    /// The different ones among them.
    pub(super) distinct: u16,
    /// How often one of them follows, the one that was asked for.
    pub(super) seen: u16,
}

impl State {
    fn new(length: u16) -> Self {
        Self {
            length,
            link: NONE,
            count: 0,
            is_end: false,
            edge: NONE,
            distinct: 0,
        }
    }
}

impl Suffixes {
    /// Returns the automaton of an empty text, with room for this number of bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        let mut states = Vec::with_capacity(bytes * 3 / 2 + 1);
        // The empty piece ends at the start of the text, too.
        states.push(State {
            count: 1,
            ..State::new(0)
        });
        Self {
            states,
            edges: Vec::with_capacity(bytes * 3 / 2),
            root: Box::new([NONE; 256]),
            whole: ROOT,
            end: Piece::default(),
        }
    }

    /// Appends a byte to the text, if there is room.
    pub(super) fn push(&mut self, byte: u8) {
        let length = self.state(self.whole).length + 1;
        if usize::from(length) > MOST {
            return;
        }
        let whole = self.add(State::new(length));
        let (mut from, mut link) = (self.whole, ROOT);
        // All suffixes that the byte has not followed before are followed by it at the end only.
        while from != NONE {
            if let Some(to) = self.next(from, byte) {
                link = self.followed_alone(from, byte, to);
                break;
            }
            self.add_edge(from, byte, whole);
            from = self.state(from).link;
        }
        if let Some(state) = self.states.get_mut(usize::from(whole)) {
            state.link = link;
        }
        self.whole = whole;
        // Its state may have been divided.
        let end = self.cut(self.end);
        self.end = self.step(end, byte, COUNTED).unwrap_or_default();
        let mut at = self.end.state;
        while let Some(state) = self.states.get_mut(usize::from(at)) {
            state.count += 1;
            at = state.link;
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) {
        let mut at = self.end.state;
        while let Some(state) = self.states.get_mut(usize::from(at)) {
            state.is_end = true;
            at = state.link;
        }
    }

    /// Returns the state of the longest piece of `from` with this byte, where the edge leads to
    /// `to`. If `to` has longer pieces, which end at fewer offsets now, they are divided from it.
    fn followed_alone(&mut self, from: StateId, byte: u8, to: StateId) -> StateId {
        let (length, divided) = (self.state(from).length + 1, self.state(to));
        if divided.length == length {
            return to;
        }
        let short = self.add(State {
            length,
            edge: NONE,
            distinct: 0,
            ..divided
        });
        let mut at = divided.edge;
        while let Some(&edge) = self.edges.get(usize::from(at)) {
            self.add_edge(short, edge.byte, edge.to);
            at = edge.next;
        }
        if let Some(long) = self.states.get_mut(usize::from(to)) {
            long.link = short;
        }
        let mut from = from;
        while from != NONE && self.lead(from, byte, to, short) {
            from = self.state(from).link;
        }
        short
    }

    fn state(&self, at: StateId) -> State {
        let state = self.states.get(usize::from(at));
        state.copied().unwrap_or(State::new(0))
    }

    fn add(&mut self, state: State) -> StateId {
        self.states.push(state);
        (self.states.len() - 1) as StateId
    }

    /// Returns the state that follows with this byte.
    fn next(&self, from: StateId, byte: u8) -> Option<StateId> {
        if from == ROOT {
            let to = self.root.get(usize::from(byte)).copied();
            return to.filter(|to| *to != NONE);
        }
        let mut at = self.states.get(usize::from(from))?.edge;
        loop {
            let edge = self.edges.get(usize::from(at))?;
            if edge.byte == byte {
                return Some(edge.to);
            }
            at = edge.next;
        }
    }

    /// Lets the edge lead to `new` if it leads to `old`; returns whether it did.
    fn lead(&mut self, from: StateId, byte: u8, old: StateId, new: StateId) -> bool {
        if from == ROOT {
            let to = self.root.get_mut(usize::from(byte));
            return to.filter(|to| **to == old).map(|to| *to = new).is_some();
        }
        let mut at = self.state(from).edge;
        while let Some(edge) = self.edges.get_mut(usize::from(at)) {
            if edge.byte == byte {
                let is_led = edge.to == old;
                if is_led {
                    edge.to = new;
                }
                return is_led;
            }
            at = edge.next;
        }
        false
    }

    /// Adds an edge: the second one of its list.
    fn add_edge(&mut self, from: StateId, byte: u8, to: StateId) {
        let Some(state) = self.states.get_mut(usize::from(from)) else {
            return;
        };
        state.distinct += 1;
        if from == ROOT {
            if let Some(edge) = self.root.get_mut(usize::from(byte)) {
                *edge = to;
            }
            return;
        }
        let new = self.edges.len() as u16;
        let next = match self.edges.get_mut(usize::from(state.edge)) {
            Some(first) => std::mem::replace(&mut first.next, new),
            None => std::mem::replace(&mut state.edge, new),
        };
        self.edges.push(Edge { byte, to, next });
    }

    /// Returns the piece without the bytes before its last `length` ones.
    pub(super) fn shortened(&self, piece: Piece, length: u16) -> Piece {
        self.cut(Piece {
            length: piece.length.min(length),
            ..piece
        })
    }

    /// Returns the piece with its own state, which may be one of a longer piece that it ends.
    fn cut(&self, piece: Piece) -> Piece {
        let mut state = piece.state;
        while let Some(link) = self
            .shorter(state)
            .filter(|(_, length)| *length >= piece.length)
        {
            state = link.0;
        }
        Piece { state, ..piece }
    }

    /// Returns the link of a state, with the length of its longest piece.
    fn shorter(&self, state: StateId) -> Option<(StateId, u16)> {
        let link = self.states.get(usize::from(state))?.link;
        let length = self.states.get(usize::from(link))?.length;
        Some((link, length))
    }

    /// Returns the last `most` bytes of the piece with the next byte, if that occurs.
    fn step(&self, piece: Piece, byte: u8, most: u16) -> Option<Piece> {
        let longer = Piece {
            state: self.next(piece.state, byte)?,
            length: piece.length + 1,
        };
        Some(self.shortened(longer, most))
    }

    /// Returns the longest end of the piece and the byte that occurs in the text.
    pub(super) fn follow(&self, piece: Piece, byte: u8) -> Piece {
        let mut piece = piece;
        loop {
            if let Some(longer) = self.step(piece, byte, LONGEST) {
                return longer;
            }
            match self.shorter(piece.state) {
                Some((state, length)) => piece = Piece { state, length },
                None => return Piece::default(),
            }
        }
    }

    /// Returns the longest end of the text that occurs before, too.
    pub(super) fn repeated(&self) -> Option<Piece> {
        let (state, length) = self.shorter(self.whole)?;
        if length >= LONGEST {
            return Some(self.shortened(self.end, LONGEST));
        }
        Some(Piece { state, length })
    }

    /// Returns the followers of a piece, if it has any, and how often this byte is among them.
    pub(super) fn followers(&self, piece: Piece, byte: u8) -> Followers {
        let state = self.state(piece.state);
        let seen = self.next(piece.state, byte);
        Followers {
            total: state.count - u16::from(state.is_end),
            distinct: state.distinct,
            seen: seen.map_or(0, |to| self.state(to).count),
        }
    }
}
