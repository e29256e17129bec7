//! `repeat-trace SOURCE TARGET none|zstd TIMES`: writes TIMES copies of an uncompressed trace.dat
//! version 7, one after the other in time, and prints where the data of each CPU are.
use iotoll_bench::{Result, repeat::repeat};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, packing, times] = args.as_slice() else {
        return Err("usage: repeat-trace SOURCE TARGET none|zstd TIMES".into());
    };
    let packed = match packing.as_str() {
        "none" => false,
        "zstd" => true,
        other => return Err(format!("packing {other}; use none or zstd").into()),
    };
    let source = std::fs::read(source)?;
    let written = repeat(&source, target.as_ref(), packed, times.parse()?)?;
    println!("events {}", written.events);
    println!("page_size {}", written.page_size);
    for part in written.parts {
        println!("cpu {} {} {}", part.cpu, part.offset, part.size);
    }
    Ok(())
}
