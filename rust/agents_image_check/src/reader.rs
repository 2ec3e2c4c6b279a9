//! Bytes taken from the front, each step checked against what is left.

use crate::Damage;

pub(crate) struct Reader<'data> {
    rest: &'data [u8],
}

impl<'data> Reader<'data> {
    pub(crate) const fn new(rest: &'data [u8]) -> Self {
        Self { rest }
    }

    pub(crate) const fn rest(&self) -> &'data [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'data [u8], Damage> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Damage::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Damage> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Damage::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16_be(&mut self) -> Result<u16, Damage> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32_be(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }
}

/// A length that was read, as a length that can be taken: one that no memory holds is merely too long.
pub(crate) fn length(claimed: u32) -> usize {
    usize::try_from(claimed).unwrap_or(usize::MAX)
}
