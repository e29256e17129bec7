//! Names files that are no recording of the kernel's events.

use crate::error::Error;

const KNOWN: &str = "none of the recordings that are read (trace.dat, blktrace, blkparse -d, perf.data, Perfetto, text of ftrace)";
const RECORD: &str = "record one: `iotoll record` prints the command";

const UNPACK: &str = "unpack it, and name a file in it";
const SOURCE: &str = "give the recording that it was made from";
const DECRYPT: &str = "decrypt it first";

/// First bytes by their place: what such a file is, and what to do.
const MAGICS: &[(usize, &[u8], &str, &str)] = &[
    (0, b"PK\x03\x04", "an archive of files", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "an archive of files", UNPACK),
    (0, b"Rar!\x1a\x07", "an archive of files", UNPACK),
    (0, b"!<arch>\n", "an archive of files", UNPACK),
    (0, b"070701", "an archive of files", UNPACK),
    (257, b"ustar", "an archive of files", UNPACK),
    (0, b"LZIP", "packed by lzip", "unpack it first"),
    (0, b"\x89LZO", "packed by lzop", "unpack it first"),
    (0, b"\x1f\x9d", "packed by compress", "unpack it first"),
    (0, b"\x5d\0\0", "packed as LZMA", "unpack it first: `xz -d`"),
    (
        0,
        b"\xff\x06\0\0sNaPpY",
        "packed by snappy",
        "unpack it first",
    ),
    (0, b"\xc1\x1f\xfc\xc1", CTF, RECORD),
    (0, b"\xc1\xfc\x1f\xc1", CTF, RECORD),
    (0, b"/* CTF", CTF, RECORD),
    (0, b"\x75\xd1\x1d\x57", CTF, RECORD),
    (0, b"\x57\x1d\xd1\x75", CTF, RECORD),
    (0, b"\xd4\xc3\xb2\xa1", PCAP, RECORD),
    (0, b"\xa1\xb2\xc3\xd4", PCAP, RECORD),
    (0, b"\x4d\x3c\xb2\xa1", PCAP, RECORD),
    (0, b"\xa1\xb2\x3c\x4d", PCAP, RECORD),
    (0, b"\x0a\x0d\x0d\x0a", PCAP, RECORD),
    // A SYSTEM_TRACE_HEADER behind the first buffer's header (evntrace.h): 32 and 64 bit.
    (0x48, b"\x02\0\x01\xc0", ETL, RECORD),
    (0x48, b"\x02\0\x02\xc0", ETL, RECORD),
    (
        0,
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2",
        QEMU,
        RECORD,
    ),
    (0, b"\x7fELF", "a program or a core dump (ELF)", RECORD),
    (0, b"MZ", "a program", RECORD),
    (
        0,
        b"SQLite format 3\0",
        "a table of a tool's results",
        SOURCE,
    ),
    (0, b"PAR1", "a table of a tool's results", SOURCE),
    (0, b"-----BEGIN PGP MESSAGE", "encrypted (PGP)", DECRYPT),
    (0, b"-----BEGIN AGE ENCRYPTED", "encrypted (age)", DECRYPT),
    (0, b"age-encryption.org/", "encrypted (age)", DECRYPT),
    (0, b"Salted__", "encrypted (openssl enc)", DECRYPT),
    (0, b"LUKS\xba\xbe", "encrypted (LUKS)", DECRYPT),
    (0, b"\x89PNG", "a picture", SOURCE),
    (0, b"\xff\xd8\xff", "a picture", SOURCE),
    (0, b"%PDF", "a document", SOURCE),
    (
        0,
        b"version https://git-lfs",
        "a pointer of Git LFS",
        "fetch the file: `git lfs pull`",
    ),
];
const CTF: &str = "a part of an LTTng trace (CTF), which is not read";
const PCAP: &str = "a capture of network packets (pcap), not a trace of the kernel's events";
const ETL: &str = "a trace of Windows (ETL), not of Linux";
const QEMU: &str = "a trace of QEMU's own events (simpletrace), not of a kernel's";

/// What begins with these bytes.
pub(crate) fn named(head: &[u8]) -> Error {
    if head.is_empty() {
        return Error::foreign("empty", RECORD);
    }
    for &(at, magic, what, mend) in MAGICS {
        if head.get(at..).is_some_and(|rest| rest.starts_with(magic)) {
            return Error::foreign(what, mend);
        }
    }
    let text = String::from_utf8_lossy(head.get(..4096).unwrap_or(head));
    let trimmed = text.trim_start();
    if trimmed.starts_with('{') && text.contains("\"fio version\"") {
        return Error::foreign(
            "fio's JSON",
            "give it with --fio, beside a trace of the same run",
        );
    }
    if trimmed.starts_with('{') || trimmed.starts_with('[') {
        return Error::foreign(
            "JSON (of a Chrome trace, or of a tool's results), which has no events of the kernel's",
            SOURCE,
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
