//! Counting the classes and events of texts, and weighing the counts.

use crate::blocks::{BLOCK, SMALL_BLOCK, count_block};
use crate::classes::{BEFORE_TEXT, Event, FEATURES, class_of, event_of};

/// What a number of texts are made of, one count for each name of `FEATURE_NAMES`.
///
/// Texts are counted apart: no event spans the end of one and the start of the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; FEATURES]);

impl Counts {
    /// Adds a text of code points up to U+00FF, one byte each.
    pub fn add_one_byte(&mut self, text: &[u8]) {
        // A block is read with the byte before each of its own, so the first byte goes by itself.
        let head = text.len().min(1);
        self.add_behind(BEFORE_TEXT, &text[..head]);
        let start = self.add_blocks::<BLOCK>(text, head);
        let start = self.add_blocks::<SMALL_BLOCK>(text, start);
        if let Some(before) = text[..start].last() {
            self.add_behind(class_of(u32::from(*before)) as usize, &text[start..]);
        }
    }

    /// Adds a text of any code points; surrogates may stand alone.
    pub fn add_code_points<C: Copy + Into<u32>>(&mut self, text: &[C]) {
        self.add_behind(BEFORE_TEXT, text);
    }

    /// Returns the counts in the order of `FEATURE_NAMES`.
    pub fn values(&self) -> &[u64; FEATURES] {
        &self.0
    }

    /// Returns the sum of all counts, each times its weight in thousandths of a token.
    pub fn millitokens(&self, weights: &[u32; FEATURES]) -> u64 {
        let mut sum = 0_u64;
        for (count, weight) in self.0.iter().zip(weights) {
            sum = sum.saturating_add(count.saturating_mul(u64::from(*weight)));
        }
        sum
    }

    /// Adds whole blocks of `text` from the place `start`, which is not its first, and returns where they end.
    fn add_blocks<const N: usize>(&mut self, text: &[u8], mut start: usize) -> usize {
        while let (Some(previous), Some(current)) =
            (text[start.saturating_sub(1)..].first_chunk::<N>(), text[start..].first_chunk::<N>())
        {
            count_block(previous, current, &mut self.0);
            start += N;
        }
        start
    }

    /// Adds code points that follow one whose class has the index `before`.
    fn add_behind<C: Copy + Into<u32>>(&mut self, before: usize, text: &[C]) {
        // The last place counts `Event::None`, so that no branch depends on what stands in the text.
        let mut counts = [0_u64; FEATURES + 1];
        text.iter().fold(before, |before, code| {
            let class = class_of((*code).into());
            counts[class as usize] += 1;
            counts[event_of(before, class) as usize] += 1;
            class as usize
        });
        for (sum, count) in self.0.iter_mut().zip(&counts[..Event::None as usize]) {
            *sum += count;
        }
    }
}
