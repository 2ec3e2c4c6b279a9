//! Several images at once, spread over threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::{Check, check};

/// Bytes that are worth a thread of their own: starting one costs about as much as hashing a tenth of
/// this.
const BYTES_A_THREAD: usize = 256 * 1024;

/// Checks every image of a message, in the order given.
///
/// Uses at most one thread for each processor that the process may run on, and none but its own for
/// little. A thread that cannot be started leaves its share to the others.
pub fn check_all(images: &[&[u8]]) -> Vec<Check> {
    let total = images.iter().fold(0_usize, |total, image| total.saturating_add(image.len()));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = processors.min(images.len()).min(total.div_ceil(BYTES_A_THREAD));
    if workers < 2 {
        return images.iter().map(|image| check(image)).collect();
    }
    check_on_threads(images, workers)
}

fn check_on_threads(images: &[&[u8]], workers: usize) -> Vec<Check> {
    // The largest first, so that no thread begins a long one when the others are done.
    let mut order: Vec<usize> = (0..images.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(images[*index].len()));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*index, check(images[*index])));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let started: Vec<_> =
            (1..workers).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut done = work();
        for thread in started {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, check)| check).collect()
}
