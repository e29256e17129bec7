//! The ring buffer's layout, from the `header_page` and `header_event` texts of the trace.

use crate::bytes::lossy;
use crate::error::{Error, Result};
use crate::format::parse_field;

/// Where the parts of a ring-buffer page and of an event's header word are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Offset of the page's 64-bit time stamp.
    pub(crate) stamp: usize,
    /// Offset of the commit word.
    pub(crate) commit: usize,
    /// Size of the commit word: 4 or 8, the kernel's `long`.
    pub(crate) commit_size: usize,
    /// Offset of the first event.
    pub(crate) data: usize,
    /// Size of a page (bytes) that the kernel had when the text was read.
    pub(crate) page_size: u32,
    /// Bits of `time_delta` in the header word; the other bits are `type_len`.
    pub(crate) delta_bits: u32,
    /// `type_len` of padding.
    pub(crate) padding: u32,
    /// `type_len` of a time extend.
    pub(crate) extend: u32,
    /// `type_len` of an absolute time stamp.
    pub(crate) absolute: u32,
}

impl Layout {
    /// The layout of every kernel since 2.6.31, with the given size of `long` (bytes).
    pub(crate) const fn usual(long: usize) -> Self {
        Self {
            stamp: 0,
            commit: 8,
            commit_size: long,
            data: 8 + long,
            page_size: 4096,
            delta_bits: 27,
            padding: 29,
            extend: 30,
            absolute: 31,
        }
    }

    /// Parses the two texts; what they leave out stays as usual.
    pub(crate) fn parse(page: &[u8], event: &[u8], long: usize, offset: u64) -> Result<Self> {
        let mut layout = Self::usual(long);
        let page = lossy(page);
        for field in page.lines().filter_map(parse_field) {
            match field.name.as_str() {
                "timestamp" => layout.stamp = field.offset,
                "commit" => (layout.commit, layout.commit_size) = (field.offset, field.size),
                "data" => {
                    layout.data = field.offset;
                    layout.page_size = (field.offset + field.size) as u32;
                }
                _ => {}
            }
        }
        if !matches!(layout.commit_size, 4 | 8) || layout.data > 256 {
            return Err(Error::corrupt(
                offset,
                "header_page describes an impossible page",
            ));
        }
        layout.read_event_header(&lossy(event));
        let kinds = 1..1 << (32 - layout.delta_bits.clamp(8, 31));
        let special = [layout.padding, layout.extend, layout.absolute];
        if !(8..=31).contains(&layout.delta_bits) || !special.iter().all(|k| kinds.contains(k)) {
            return Err(Error::corrupt(
                offset,
                "header_event describes an impossible event",
            ));
        }
        Ok(layout)
    }

    fn read_event_header(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let number = value
                .split(|c: char| !c.is_ascii_digit())
                .find(|digits| !digits.is_empty())
                .and_then(|digits| digits.parse().ok());
            match (key.trim(), number) {
                ("time_delta", Some(n)) => self.delta_bits = n,
                ("padding", Some(n)) => self.padding = n,
                ("time_extend", Some(n)) => self.extend = n,
                ("time_stamp", Some(n)) => self.absolute = n,
                _ => {}
            }
        }
    }
}
