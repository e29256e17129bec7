//! `repeat-trace SOURCE TARGET TIMES`: writes TIMES copies of an uncompressed trace.dat
//! version 7, one after the other in time, and prints where the data of each CPU are.
use iotoll_bench::{Result, repeat::repeat};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, times] = args.as_slice() else {
        return Err("usage: repeat-trace SOURCE TARGET TIMES".into());
    };
    let source = std::fs::read(source)?;
    let written = repeat(&source, target.as_ref(), times.parse()?)?;
    println!("events {}", written.events);
    println!("page_size {}", written.page_size);
    for part in written.parts {
        println!("cpu {} {} {}", part.cpu, part.offset, part.size);
    }
    Ok(())
}
