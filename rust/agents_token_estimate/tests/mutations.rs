//! Mutated texts through every way of counting: the body of the fuzz target, run for a bounded time.

mod invariants;

use invariants::check;

const SEEDS: [&str; 4] = [
    "The agent reads order 1042, then asks: \"refund it?\" -- (yes)\n\tdone.\r\n",
    r#"{"id": "ord_3f2a9c0e", "total": 49.95, "note": null, "tags": ["vip", "quick"]}"#,
    "caf\u{e9} na\u{ef}ve \u{bf}qu\u{e9}? \u{a9}\u{a0}2026 \u{d7}\u{f7}\u{ff}",
    "\u{4f60}\u{597d} \u{43c}\u{438}\u{440} \u{1f600} \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
];
const ROUNDS: usize = 20_000;

/// A small generator of numbers, the same on every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below a usize")
    }
}

#[test]
fn mutated_text_is_counted_alike_at_every_width() {
    let mut chance = Chance(20_250);
    let mut data = SEEDS.concat().into_bytes();
    for round in 0..ROUNDS {
        let place = chance.below(data.len());
        match chance.below(5) {
            0 => data[place] = chance.below(256).to_le_bytes()[0],
            1 => data[place] ^= 1 << chance.below(8),
            2 => data.insert(place, chance.below(256).to_le_bytes()[0]),
            3 => {
                let copied = data[place..data.len().min(place + chance.below(300))].to_vec();
                data.extend_from_slice(&copied);
            }
            _ => data.truncate(place.max(8)),
        }
        if data.len() > 2_000 || round % 500 == 0 {
            data = SEEDS[chance.below(SEEDS.len())].as_bytes().to_vec();
        }
        check(&data);
    }
}
