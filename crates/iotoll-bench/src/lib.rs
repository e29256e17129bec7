//! What the benchmark in `tools/bench` needs beside the analyser: longer traces, and the block
//! events of a trace as raw blktrace files for the peers that read nothing else.

pub mod container;
pub mod pages;
pub mod raw;
pub mod repeat;

/// Result of this crate: what goes wrong is printed and ends the program.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
