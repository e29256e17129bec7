//! Prints a run's events as blkparse would: `cargo run --release -p blktrace --example blkdump -- sda`.
use std::io::Write;

use blktrace::{Entry, Run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: blkdump NAME")?;
    let mut run = Run::open(path)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Some(entry) = run.next()? {
        match entry {
            Entry::Event(e) => writeln!(
                out,
                "{},{} {} {} {} {} {} {:#x} {} + {} [{}]",
                e.dev >> 20,
                e.dev & 0xf_ffff,
                e.cpu,
                e.sequence,
                e.ts,
                e.pid,
                e.act.letter(),
                e.categories,
                e.sector,
                e.bytes >> 9,
                e.error
            )?,
            Entry::Note(note) => writeln!(out, "{note:?}")?,
            Entry::Lost(lost) => writeln!(out, "{lost:?}")?,
        }
    }
    Ok(())
}
