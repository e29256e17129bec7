//! Counts the actions of a blktrace run: `cargo run --release --example blktrace -- NAME`.
use iorecord::{BlktraceEvents, Item, action_name};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: blktrace NAME")?;
    let mut counts = [0_u64; 32];
    for item in BlktraceEvents::open(path)? {
        match item? {
            Item::Event(event) => {
                if let Some(count) = counts.get_mut(usize::from(event.name)) {
                    *count += 1;
                }
            }
            Item::Lost(gap) => println!("{gap:?}"),
        }
    }
    for (number, count) in (0..).zip(counts).filter(|&(_, count)| count > 0) {
        println!("{count:9} {}", action_name(number));
    }
    Ok(())
}
