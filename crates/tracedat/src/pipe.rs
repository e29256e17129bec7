//! One CPU's part of the running kernel's ring buffers.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::time::Duration;

/// Pause between two looks at an empty ring buffer.
const PAUSE: Duration = Duration::from_millis(10);

/// One CPU's `trace_pipe_raw`.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) file: File,
    /// Where `tracing_on` is, if more events are waited for.
    pub(crate) switch: Option<PathBuf>,
}

impl Pipe {
    /// The next page, possibly a shorter one; 0 at the end.
    pub(crate) fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let mut last = false;
        loop {
            match self.file.read(page) {
                Ok(count) if count > 0 || self.switch.is_none() => return Ok(count),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
            let on = match &self.switch {
                Some(switch) => fs::read(switch)?.starts_with(b"1"),
                None => false,
            };
            // One more look after the switch: events may have come just before it.
            if !on && (last || self.switch.is_none()) {
                return Ok(0);
            }
            last = !on;
            if on {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
