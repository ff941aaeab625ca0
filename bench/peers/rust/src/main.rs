//! What a check of one of a million keys costs governor and throttlecrab, and its memory.
//!
//! `rust NAME` prints `NAME value unit` lines, measured as library.c measures ours.

use governor::{Quota, RateLimiter};
use std::{env, fs, num::NonZeroU32, process, time::SystemTime};
use throttlecrab::{AdaptiveStore, PeriodicStore, Store};

const KEYS: u64 = 1_000_000;
const ROUNDS: usize = 5;
const LIMIT: u32 = 1000; // an hour, and at once

/// 20 bytes of text, the eight in the middle a number in the letters '@' to 'O'.
fn write_key(key: &mut [u8; 20], number: u64) {
    let mut x = number;
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    key[8..16].copy_from_slice(&(x | 0x4040_4040_4040_4040).to_le_bytes());
}

fn text(key: &[u8; 20]) -> &str {
    // SAFETY: write_key writes ASCII only.
    unsafe { std::str::from_utf8_unchecked(key) }
}

/// xorshift64*, as in measure.h.
fn draw_below(seed: &mut u64, bound: u64) -> u64 {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    ((seed.wrapping_mul(0x2545_f491_4f6c_dd1d) as u128 * bound as u128) >> 64) as u64
}

/// Nanoseconds that this thread has run.
fn now_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: f64 = statm
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("resident pages");
    // SAFETY: no more than a question to the system.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

fn measure(name: &str, operations: u64, mut allowed: impl FnMut(&[u8; 20]) -> bool) {
    let mut key = *b"account:12345678:id\0";
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let before = resident_bytes();
    for number in 0..KEYS {
        write_key(&mut key, number);
        assert!(allowed(&key));
    }
    let bytes = (resident_bytes() - before) / KEYS as f64;
    let mut denied = 0;
    let mut ns: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = now_ns();
            for _ in 0..operations {
                write_key(&mut key, draw_below(&mut seed, KEYS));
                denied += !allowed(&key) as u64;
            }
            (now_ns() - start) as f64 / operations as f64
        })
        .collect();
    assert_eq!(denied, 0);
    ns.sort_by(f64::total_cmp);
    println!("{name} {:.2} ns\n{name} {bytes:.2} bytes", ns[ROUNDS / 2]);
}

fn throttlecrab<S: Store>(name: &str, operations: u64, store: S) {
    let mut limiter = throttlecrab::RateLimiter::new(store);
    let limit = i64::from(LIMIT);
    measure(name, operations, |key| {
        limiter
            .rate_limit(text(key), limit, limit, 3600, 1, SystemTime::now())
            .expect("valid")
            .0
    });
}

fn main() {
    let name = env::args().nth(1).unwrap_or_default();
    let quick = env::args().nth(2).is_some_and(|flag| flag == "--quick");
    let operations = if quick { 100_000 } else { KEYS };
    let quota = Quota::per_hour(NonZeroU32::new(LIMIT).expect("not zero"));
    match name.as_str() {
        "governor" => {
            let limiter = RateLimiter::keyed(quota);
            let mut asked = String::with_capacity(20);
            measure(&name, operations, |key| {
                asked.clear();
                asked.push_str(text(key));
                limiter.check_key(&asked).is_ok()
            });
        }
        "governor-array" => {
            let limiter = RateLimiter::keyed(quota);
            measure(&name, operations, |key| limiter.check_key(key).is_ok());
        }
        "throttlecrab-adaptive" => throttlecrab(
            &name,
            operations,
            AdaptiveStore::builder().capacity(KEYS as usize).build(),
        ),
        "throttlecrab-periodic" => throttlecrab(
            &name,
            operations,
            PeriodicStore::builder().capacity(KEYS as usize).build(),
        ),
        _ => {
            eprintln!("expected the name of a peer, found '{name}'");
            process::exit(2);
        }
    }
}
