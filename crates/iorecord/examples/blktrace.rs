//! Measures a blktrace run and prints its record: `cargo run --release --example blktrace -- NAME`.
//! With `events` behind the name it only reads and translates.
use iorecord::{Analysis, BlktraceEvents, Item, Request, Unit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: blktrace NAME [events]")?;
    if args.next().as_deref() == Some("events") {
        let events = BlktraceEvents::open(path)?.filter(|i| matches!(i, Ok(Item::Event(_))));
        println!("events {}", events.count());
    } else {
        let analysis = Analysis::run(path, &Request::default())?;
        println!("{}", analysis.record(Unit::Nanoseconds)?);
    }
    Ok(())
}
