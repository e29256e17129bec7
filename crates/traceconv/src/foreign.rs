//! Names files that are no recording of the kernel's events.

use crate::error::Error;

const KNOWN: &str = "none of the recordings that are read (trace.dat, blktrace, blkparse -d, perf.data, Perfetto, text of ftrace)";
const RECORD: &str = "record one: `iotoll record` prints the command";

/// What begins with these bytes.
pub(crate) fn named(head: &[u8]) -> Error {
    let starts = |magic: &[u8]| head.starts_with(magic);
    let text = String::from_utf8_lossy(head.get(..4096).unwrap_or(head));
    let trimmed = text.trim_start();
    if head.is_empty() {
        return Error::foreign("empty", RECORD);
    }
    if starts(b"PK\x03\x04") || head.get(257..262) == Some(b"ustar") {
        return Error::foreign("an archive of files", "unpack it, and name a file in it");
    }
    if starts(&[0xc1, 0x1f, 0xfc, 0xc1]) || starts(&[0xc1, 0xfc, 0x1f, 0xc1]) || starts(b"/* CTF") {
        return Error::foreign("a part of an LTTng trace (CTF), which is not read", RECORD);
    }
    if trimmed.starts_with('{') || trimmed.starts_with('[') {
        return Error::foreign(
            "JSON (of a Chrome trace, or of a tool's results), which has no events of the kernel's",
            "give the recording that it was made from",
        );
    }
    if starts(b"\x7fELF") || starts(b"MZ") {
        return Error::foreign("a program", RECORD);
    }
    if starts(b"SQLite format 3\0") || starts(b"PAR1") {
        return Error::foreign(
            "a table of a tool's results",
            "give the recording that it was made from",
        );
    }
    if trimmed.starts_with('<') {
        return Error::foreign(
            "HTML without the text of a trace",
            "give the recording that it was made from, or systrace's HTML with its trace data",
        );
    }
    if is_blkparse(&text) {
        return Error::foreign(
            "the text of blkparse",
            "give the raw files of blktrace, or what `blkparse -i NAME -d FILE` writes",
        );
    }
    Error::foreign(KNOWN, RECORD)
}

/// `  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]`.
fn is_blkparse(text: &str) -> bool {
    text.lines().take(8).any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(7).collect();
        let [dev, cpu, sequence, time, pid, act, ..] = words.as_slice() else {
            return false;
        };
        let number = |word: &&str| word.parse::<u64>().is_ok();
        let device = dev.split_once(',');
        let device = device.is_some_and(|(major, minor)| number(&major) && number(&minor));
        device
            && [cpu, sequence, pid].into_iter().all(number)
            && time.parse::<f64>().is_ok()
            && act.len() <= 2
    })
}
