//! Criterion benches of strings and delta frames, with no interpreter.

use std::hint::black_box;

use agents_json_text::CodePoints;
use agents_ui_frames::{Delta, DeltaFrames, DeltaKind, write_string};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn strings(criterion: &mut Criterion) {
    let code = "    for item in \"rows\":\n        total += item\n".repeat(1_400);
    let cjk: Vec<u16> = (0..21_000).map(|index| 0x4e00 + index * 7 % 0x5000).collect();
    let line_ends = "\n\u{85}".repeat(16_000).chars().map(|end| end as u8).collect::<Vec<u8>>();
    let mut group = criterion.benchmark_group("strings");
    let mut out = Vec::with_capacity(1 << 20);
    for (name, text, bytes) in [
        ("word", CodePoints::OneByte(b" order"), 6),
        ("code", CodePoints::OneByte(code.as_bytes()), code.len()),
        ("cjk", CodePoints::TwoBytes(&cjk), 2 * cjk.len()),
        ("line ends", CodePoints::OneByte(&line_ends), line_ends.len()),
    ] {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                write_string(&mut out, black_box(text));
                out.len()
            });
        });
    }
    group.finish();
}

fn deltas(criterion: &mut Criterion) {
    let kind = DeltaKind::of(CodePoints::OneByte(b"text-delta")).expect("a kind");
    let words: [&[u8]; 4] = [b"Hello", b" wor", b"ld, your ", b"order\n"];
    let mut group = criterion.benchmark_group("deltas");
    group.throughput(Throughput::Elements(words.len() as u64));
    let mut out = Vec::with_capacity(1 << 10);
    for (name, max_joined_bytes) in [("apart", 0), ("joined", 1 << 15)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let mut frames = DeltaFrames::new(max_joined_bytes);
                for word in black_box(words) {
                    let id = CodePoints::OneByte(b"msg_0042");
                    let delta = Delta { kind, id, text: CodePoints::OneByte(word) };
                    frames.write(&mut out, delta, None).expect("no event ID");
                }
                out.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, strings, deltas);
criterion_main!(benches);
