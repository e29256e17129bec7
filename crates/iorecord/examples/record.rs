//! Prints the record of a trace: `cargo run --release --example record -- trace.dat [COMM]`.
use iorecord::{Analysis, Request, Unit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: record TRACE [COMM]")?;
    let request = Request {
        comm: args.next(),
        ..Request::default()
    };
    println!(
        "{}",
        Analysis::run(path, &request)?.record(Unit::Nanoseconds)?
    );
    Ok(())
}
