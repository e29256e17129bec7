//! `raw-blktrace TRACE NAME`: writes the block events of a trace.dat as NAME.blktrace.0, .1, … and
//! prints how many they are.
use iotoll_bench::{Result, raw::convert};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(trace), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: raw-blktrace TRACE NAME".into());
    };
    let trace = tracedat::Trace::open(trace)?;
    println!("events {}", convert(&trace, name.as_ref())?);
    Ok(())
}
