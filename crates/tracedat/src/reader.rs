//! Checked reading of the parts of a file that describe it.

use crate::bytes::{Endian, lossy};
use crate::error::{Error, Result};
use crate::source::Source;

/// Bytes fetched at once.
const WINDOW: u64 = 64 << 10;
/// Largest block that is taken into memory (the formats of all events are some 6 MB).
const BLOCK_LIMIT: u64 = 64 << 20;

/// A position in a stretch of a source.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    source: &'a Source,
    at: u64,
    end: u64,
    /// File offset of the source's start, for messages.
    base: u64,
    endian: Endian,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Reader<'a> {
    /// Reads the source from `at` to its end. `base` is its own place in the file (bytes).
    pub(crate) fn new(source: &'a Source, at: u64, base: u64, endian: Endian) -> Self {
        Self {
            source,
            at,
            end: source.len(),
            base,
            endian,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// The same position, in another byte order.
    pub(crate) fn with_endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// Offset in the file of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base.saturating_add(self.at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn truncated(&self, what: &'static str) -> Error {
        Error::Truncated {
            offset: self.offset(),
            end: self.base.saturating_add(self.end),
            what,
        }
    }

    /// Steps over `len` bytes.
    pub(crate) fn skip(&mut self, len: u64, what: &'static str) -> Result<()> {
        if len > self.left() {
            return Err(self.truncated(what));
        }
        self.at += len;
        Ok(())
    }

    /// The next `len` bytes as a reader of their own.
    pub(crate) fn part(&mut self, len: u64, what: &'static str) -> Result<Self> {
        let at = self.at;
        self.skip(len, what)?;
        Ok(Self {
            source: self.source,
            at,
            end: self.at,
            base: self.base,
            endian: self.endian,
            window: Vec::new(),
            window_at: 0,
        })
    }

    pub(crate) fn take(&mut self, len: u64, what: &'static str) -> Result<Vec<u8>> {
        if len > self.left() {
            return Err(self.truncated(what));
        }
        if len > BLOCK_LIMIT {
            let text = format!("{what} of {len} bytes, more than {BLOCK_LIMIT}");
            return Err(Error::corrupt(self.offset(), text));
        }
        let out = if len < WINDOW {
            self.peek(len)?.get(..len as usize).map(<[u8]>::to_vec)
        } else {
            let mut out = vec![0; len as usize];
            (self.source.read_at(self.at, &mut out)? == out.len()).then_some(out)
        };
        self.at += len;
        out.ok_or_else(|| self.truncated(what))
    }

    /// The bytes of the window from the present position on.
    fn peek(&mut self, want: u64) -> Result<&[u8]> {
        let have = self.window_at + self.window.len() as u64;
        let inside = self.at >= self.window_at && self.at + want <= have;
        if !inside {
            self.window.resize(WINDOW.min(self.left()) as usize, 0);
            let count = self.source.read_at(self.at, &mut self.window)?;
            self.window.truncate(count);
            self.window_at = self.at;
        }
        let from = usize::try_from(self.at - self.window_at).unwrap_or(usize::MAX);
        Ok(self.window.get(from..).unwrap_or_default())
    }

    fn number(&mut self, size: u64, what: &'static str) -> Result<u64> {
        if self.left() < size {
            return Err(self.truncated(what));
        }
        let endian = self.endian;
        let value = self
            .peek(size)?
            .get(..size as usize)
            .map(|b| endian.uint(b));
        self.at += size;
        value.ok_or_else(|| self.truncated(what))
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.number(1, what)? as u8)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(self.number(2, what)? as u16)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(self.number(4, what)? as u32)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        self.number(8, what)
    }

    /// A null-terminated string, without the null; at most as long as one window.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String> {
        let want = WINDOW.min(self.left());
        let window = self.peek(want)?;
        let Some(len) = window.iter().position(|&b| b == 0) else {
            return Err(self.truncated(what));
        };
        let text = lossy(window.get(..len).unwrap_or_default());
        self.at += len as u64 + 1;
        Ok(text)
    }

    /// Exactly these bytes.
    pub(crate) fn expect(&mut self, want: &[u8], what: &'static str) -> Result<()> {
        let offset = self.offset();
        if self.take(want.len() as u64, what)? == want {
            Ok(())
        } else {
            Err(Error::corrupt(offset, format!("{what} expected")))
        }
    }

    /// A block with its 64-bit length in front.
    pub(crate) fn block(&mut self, what: &'static str) -> Result<Vec<u8>> {
        let len = self.u64(what)?;
        self.take(len, what)
    }
}
