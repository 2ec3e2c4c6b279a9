//! Criterion benches of hash and structure, with no interpreter.

use std::hint::black_box;

use agents_image_check::{check, check_all, inspect, sha256};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[path = "../tests/images/mod.rs"]
mod images;

/// Bytes that look like compressed pixels, without end markers by design.
fn pixels(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    })
    .take(length)
    .collect()
}

fn structure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("inspect");
    let names = ["png", "jpeg", "gif", "webp_lossy", "webp_lossless", "webp_animated"];
    for (name, image) in names.iter().zip(images::whole_images(&pixels(200_000))) {
        group.throughput(Throughput::Bytes(image.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| inspect(black_box(&image))));
    }
    group.finish();
}

fn hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sha256");
    for (name, length) in [("1 KiB", 1024), ("64 KiB", 65_536), ("3.75 MB", 3_750_000)] {
        let data = pixels(length);
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(name, |bencher| bencher.iter(|| sha256(black_box(&data))));
    }
    group.finish();
}

fn message(criterion: &mut Criterion) {
    let images: Vec<Vec<u8>> = (0..8).map(|_| images::whole_png(&pixels(400_000))).collect();
    let borrowed: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let mut group = criterion.benchmark_group("eight images");
    group.throughput(Throughput::Bytes(images.iter().map(|image| image.len() as u64).sum()));
    group.bench_function("one by one", |bencher| {
        bencher.iter(|| black_box(&borrowed).iter().map(|image| check(image)).collect::<Vec<_>>());
    });
    group.bench_function("on threads", |bencher| bencher.iter(|| check_all(black_box(&borrowed))));
    group.finish();
}

criterion_group!(benches, structure, hash, message);
criterion_main!(benches);
