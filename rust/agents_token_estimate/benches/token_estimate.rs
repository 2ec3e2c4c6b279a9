//! Criterion benches of the counting, with no interpreter.

use std::hint::black_box;

use agents_token_estimate::{Counts, FEATURES};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SENTENCE: &str = "The agent reads the order status, then asks before it refunds \"ord_1042\".\n";

fn texts(criterion: &mut Criterion) {
    let weights = [250; FEATURES];
    let rows = SENTENCE.repeat(64 * 1024 / SENTENCE.len());
    let mut group = criterion.benchmark_group("one byte");
    for (name, text) in [("sentence", SENTENCE), ("64 KB", &rows)] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut counts = Counts::default();
                counts.add_one_byte(black_box(text.as_bytes()));
                counts.millitokens(&weights)
            });
        });
    }
    group.finish();

    let han: Vec<u16> = (0..21_000_u16).map(|index| 0x4e00 + index % 0x5000).collect();
    let mut group = criterion.benchmark_group("two bytes");
    group.throughput(Throughput::Elements(han.len() as u64));
    group.bench_function("han", |bencher| {
        bencher.iter(|| {
            let mut counts = Counts::default();
            counts.add_code_points(black_box(&han));
            counts.millitokens(&weights)
        });
    });
    group.finish();
}

criterion_group!(benches, texts);
criterion_main!(benches);
