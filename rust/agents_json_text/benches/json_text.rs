//! Criterion benches of the writers, with no interpreter.

use std::hint::black_box;

use agents_json_text::{CodePoints, write_ascii_string, write_float, write_integer, write_unicode_string};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SENTENCE: &str = "the agent reads the order status, then asks before it refunds \"ord_1042\"\n";

fn strings(criterion: &mut Criterion) {
    let log = SENTENCE.repeat(64 * 1024 / SENTENCE.len());
    let cjk: Vec<u16> = (0x4e00..0x9e00).chain(0x4e00..0x5010).collect();
    let mut group = criterion.benchmark_group("strings");
    let mut out = Vec::with_capacity(1 << 20);
    for (name, text) in [("key", "order_id"), ("sentence", SENTENCE), ("log", &log)] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("ascii/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                write_ascii_string(&mut out, CodePoints::OneByte(black_box(text.as_bytes())));
                out.len()
            });
        });
        group.bench_function(format!("unicode/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                write_unicode_string(&mut out, black_box(text));
                out.len()
            });
        });
    }
    group.throughput(Throughput::Elements(cjk.len() as u64));
    group.bench_function("ascii/cjk", |bencher| {
        bencher.iter(|| {
            out.clear();
            write_ascii_string(&mut out, CodePoints::TwoBytes(black_box(&cjk)));
            out.len()
        });
    });
    group.finish();
}

fn numbers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("numbers");
    let mut out = Vec::with_capacity(1 << 10);
    for (name, value) in [("price", 123.45), ("long", 1_113_178_120_592_002.2), ("small", 1.25e-7)] {
        group.bench_function(format!("float/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                write_float(&mut out, black_box(value));
                out.len()
            });
        });
    }
    group.bench_function("integer", |bencher| {
        bencher.iter(|| {
            out.clear();
            write_integer(&mut out, black_box(-9_007_199_254_740_993));
            out.len()
        });
    });
    group.finish();
}

criterion_group!(benches, strings, numbers);
criterion_main!(benches);
