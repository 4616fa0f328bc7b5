//! The transitions of a suffix automaton that its text does not imply: a few in place, a row for states with more.

/// Targets by state and byte. Nothing leads to the initial state 0, so 0 means that there is no transition.
#[derive(Clone)]
pub(super) struct Edges {
    /// For each position of the text: its node. The first node is empty and shared by all positions without edges,
    /// which are nearly all.
    heads: Vec<u32>,
    nodes: Vec<Node>,
    /// For each clone: its node.
    clones: Vec<Node>,
    /// A row has a cell for each byte that occurs in the text.
    rows: Vec<u32>,
    cells: [u16; 256],
    width: usize,
}

/// Edges in place, in the order in which they came.
#[derive(Clone, Copy, Default)]
struct Node {
    /// If the last one is [`ROW`], the first one is where the row begins.
    targets: [u32; IN_PLACE],
    bytes: [u8; IN_PLACE],
}

/// The number of edges in place. With fewer, the rows take more memory; with more, the nodes do.
const IN_PLACE: usize = 4;
const ROW: u32 = u32::MAX;
/// The cell of a byte that does not occur.
const ABSENT: u16 = u16::MAX;

impl Node {
    fn row(&self) -> Option<usize> {
        (self.targets[IN_PLACE - 1] == ROW).then_some(self.targets[0] as usize)
    }
}

impl Edges {
    /// Creates the positions of `text`, without edges. Reserves room for as many clones as there can be;
    /// [`Edges::shrink`] gives back what is not used.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut cells = [ABSENT; 256];
        let mut width = 0;
        for &byte in text {
            let cell = &mut cells[usize::from(byte)];
            if *cell == ABSENT {
                *cell = width;
                width += 1;
            }
        }
        let states = text.len() + 1;
        Self {
            heads: vec![0; states],
            nodes: vec![Node::default()],
            clones: Vec::with_capacity(states),
            rows: Vec::with_capacity(16 * states),
            cells,
            width: usize::from(width),
        }
    }

    /// Returns where the edge leads; 0 if there is none.
    #[inline]
    pub(super) fn get(&self, state: u32, byte: u8) -> u32 {
        let node = self.node(state);
        if let Some(row) = node.row() {
            let cell = self.cells[usize::from(byte)];
            return if cell == ABSENT { 0 } else { self.rows[row + usize::from(cell)] };
        }
        // All of them are compared, without a branch; an empty place has the target 0.
        let edges = node.bytes.iter().zip(node.targets);
        edges.fold(0, |found, (&own, target)| if own == byte { found | target } else { found })
    }

    /// Sets an edge, which may exist. Its byte occurs in the text.
    pub(super) fn set(&mut self, state: u32, byte: u8, target: u32) {
        let cell = |byte: u8| usize::from(self.cells[usize::from(byte)]);
        let node = match (state as usize).checked_sub(self.heads.len()) {
            Some(clone) => &mut self.clones[clone],
            None => {
                let head = &mut self.heads[state as usize];
                if *head == 0 {
                    *head = self.nodes.len() as u32;
                    self.nodes.push(Node::default());
                }
                &mut self.nodes[*head as usize]
            }
        };
        if let Some(row) = node.row() {
            self.rows[row + cell(byte)] = target;
            return;
        }
        for (own, place) in node.bytes.iter_mut().zip(&mut node.targets) {
            if *place == 0 || *own == byte {
                (*own, *place) = (byte, target);
                return;
            }
        }
        let row = self.rows.len();
        self.rows.resize(row + self.width, 0);
        for (own, target) in node.bytes.into_iter().zip(node.targets).chain([(byte, target)]) {
            self.rows[row + cell(own)] = target;
        }
        node.targets[0] = row as u32;
        node.targets[IN_PLACE - 1] = ROW;
    }

    /// Adds a clone with the edges of a state.
    pub(super) fn copy(&mut self, state: u32) {
        let mut node = *self.node(state);
        if let Some(row) = node.row() {
            node.targets[0] = self.rows.len() as u32;
            self.rows.extend_from_within(row..row + self.width);
        }
        self.clones.push(node);
    }

    pub(super) fn shrink(&mut self) {
        self.clones.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// Returns the bytes of memory.
    pub(super) fn size(&self) -> usize {
        let numbers = self.heads.capacity() + self.rows.capacity();
        size_of::<u32>() * numbers + size_of::<Node>() * (self.nodes.capacity() + self.clones.capacity())
    }

    #[inline]
    fn node(&self, state: u32) -> &Node {
        match (state as usize).checked_sub(self.heads.len()) {
            Some(clone) => &self.clones[clone],
            None => &self.nodes[self.heads[state as usize] as usize],
        }
    }
}
