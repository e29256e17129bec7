//! What the first bytes of a file say.

use crate::bytes::Endian;
use crate::compress::Compression;
use crate::error::Error;

/// What the first bytes say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) endian: Endian,
    pub(crate) long: usize,
    pub(crate) page_size: u32,
    pub(crate) compression: Compression,
}

/// The trace holds text, not events.
pub(crate) fn text_trace() -> Error {
    Error::Unsupported {
        what: "a latency (text) trace".to_owned(),
        mend: "record with trace-cmd record or extract",
    }
}
