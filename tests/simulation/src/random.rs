//! The only source of randomness: splitmix64, so that a seed determines a run.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for `name`; does not advance this one.
    pub(crate) fn fork(&self, name: u64) -> Self {
        let mut fork = Self(self.0 ^ name.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        fork.next();
        fork
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number from `from` up to `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True in `per_mille` of a thousand cases.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of `items`.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64);
        items.get(usize::try_from(at).unwrap_or(0))
    }
}

/// A running hash over bytes (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Hashes more bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash of some texts.
    pub(crate) fn of(texts: &[&str]) -> u64 {
        let mut hash = Self::default();
        for text in texts {
            hash.add(text.as_bytes());
            hash.add(&[0]);
        }
        hash.0
    }
}
