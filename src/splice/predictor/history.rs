//! The bytes before a byte, as the contexts in which it is looked up.

/// Contexts that are longer than a row of short values.
pub(super) const LONG: u32 = 32;
pub(super) const LONGEST: u32 = 64;

/// The last bytes before the next one.
#[derive(Clone, Copy, Debug)]
pub(in crate::splice) struct History {
    /// The last fifteen, the newest one lowest.
    bytes: u128,
    /// The last ones of the longest context, in a ring, and rolling hashes of the two long
    /// contexts.
    ring: [u8; LONGEST as usize],
    long: [u64; 2],
    /// All bytes, up to the longest context.
    pub(super) count: u32,
    at: usize,
    /// The byte before was white space that was left out.
    in_layout: bool,
}

impl Default for History {
    fn default() -> Self {
        Self {
            bytes: 0,
            ring: [0; LONGEST as usize],
            long: [0; 2],
            count: 0,
            at: 0,
            in_layout: false,
        }
    }
}

impl History {
    /// The history at the end of `text`.
    pub(in crate::splice) fn of(text: &str) -> Self {
        // White space that is left out may be long.
        let from = (text.len().saturating_sub(LOOKED_AT)..)
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        let mut history = Self::default();
        text.as_bytes()
            .get(from..)
            .unwrap_or_default()
            .iter()
            .for_each(|&byte| history.push(byte));
        history
    }

    /// The history after these bytes, which have no layout.
    pub(super) fn after(bytes: &[u8]) -> Self {
        let mut history = Self::default();
        bytes.iter().for_each(|&byte| history.append(byte));
        history
    }

    /// The last two bytes only: for a longer history, the counts know only the byte that followed
    /// it before.
    pub(in crate::splice) fn short(self) -> Self {
        Self {
            count: self.count.min(2),
            ..self
        }
    }

    /// Whether the byte is white space between tokens, judging by its neighbours.
    pub(super) fn is_layout(&self, byte: u8) -> bool {
        match byte {
            b'\n' | b'\r' | b'\t' => true,
            b' ' => {
                self.in_layout
                    || self.count == 0
                    || matches!(self.bytes as u8, b'{' | b'[' | b',' | b':')
            }
            _ => false,
        }
    }

    /// Takes the next byte.
    pub(in crate::splice) fn push(&mut self, byte: u8) {
        self.in_layout = self.is_layout(byte);
        if !self.in_layout {
            self.append(byte);
        }
    }

    /// Takes the next byte, which is not layout.
    fn append(&mut self, byte: u8) {
        self.bytes = self.bytes << 8 | u128::from(byte);
        self.count = (self.count + 1).min(LONGEST);
        for (hash, (length, power)) in self.long.iter_mut().zip(LEAVING) {
            let place = (self.at + (LONGEST - length) as usize) % LONGEST as usize;
            let oldest = self.ring.get(place).copied().unwrap_or_default();
            let out = u64::from(oldest).wrapping_mul(power);
            *hash = hash
                .wrapping_mul(BASE)
                .wrapping_add(u64::from(byte))
                .wrapping_sub(out);
        }
        if let Some(place) = self.ring.get_mut(self.at) {
            *place = byte;
        }
        self.at = (self.at + 1) % LONGEST as usize;
    }

    /// Returns how many of the last bytes `text` ends with, up to the longest context.
    pub(super) fn common(&self, text: &[u8]) -> u32 {
        let ring = |back: usize| {
            self.ring
                .get((self.at + LONGEST as usize - back) % LONGEST as usize)
        };
        let last = text.iter().rev().take(self.count as usize).enumerate();
        last.take_while(|&(at, byte)| ring(at + 1) == Some(byte))
            .count() as u32
    }

    /// A hash of the last bytes.
    pub(super) fn context(&self, bytes: u32) -> u64 {
        match bytes {
            LONG => return mix(self.long[0], bytes),
            LONGEST => return mix(self.long[1], bytes),
            _ => {}
        }
        let last = self.bytes & ((1 << (8 * bytes)) - 1);
        mix(
            (last as u64).wrapping_mul(BASE) ^ ((last >> 64) as u64).rotate_left(29),
            bytes,
        )
    }
}

/// Spreads the bits of a hash.
fn mix(hash: u64, bytes: u32) -> u64 {
    let mixed = (hash ^ hash >> 32 ^ u64::from(bytes) << 57).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 29).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

/// The base of the rolling hashes.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The lengths of the two long contexts, and the weight of the byte that leaves each.
const LEAVING: [(u32, u64); 2] = [
    (LONG, BASE.wrapping_pow(LONG)),
    (LONGEST, BASE.wrapping_pow(LONGEST)),
];

/// Bytes before an offset that are examined for its history: more than the longest context, since
/// layout does not count.
const LOOKED_AT: usize = 512;

/// The hash of a context with this hash and the byte after it.
pub(super) fn follower(context: u64, byte: u8) -> u64 {
    let pair = (context ^ (u64::from(byte) + 1)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (pair ^ pair >> 29).wrapping_mul(BASE)
}
