//! Ring-buffer pages of a 64-bit little-endian machine: the times in them.

/// Page header: time stamp and commit word, 8 bytes each.
const HEAD: usize = 16;
/// The kernel keeps flags above this in the commit word.
const COMMIT: u64 = (1 << 27) - 1;
const PADDING: u32 = 29;
const EXTEND: u32 = 30;
const STAMP: u32 = 31;

fn u32_at(page: &[u8], at: usize) -> Option<u32> {
    page.get(at..)?
        .first_chunk()
        .map(|raw| u32::from_le_bytes(*raw))
}

fn u64_at(page: &[u8], at: usize) -> Option<u64> {
    page.get(at..)?
        .first_chunk()
        .map(|raw| u64::from_le_bytes(*raw))
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = page.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Calls `each` with the place, type and header word of all that is in a page, up to damage.
fn walk(page: &[u8], mut each: impl FnMut(usize, u32, u32)) {
    let end = HEAD + (u64_at(page, 8).unwrap_or(0) & COMMIT) as usize;
    let mut at = HEAD;
    while at + 4 <= end {
        let Some(word) = u32_at(page, at) else {
            return;
        };
        let kind = word & 31;
        let first = u32_at(page, at + 4).unwrap_or(0) as usize;
        each(at, kind, word);
        at += 4 + match kind {
            0 => first.next_multiple_of(4).max(4),
            PADDING if word >> 5 == 0 => return,
            PADDING => first.next_multiple_of(4),
            EXTEND | STAMP => 4,
            words => words as usize * 4,
        };
    }
}

/// Time of a page's first and of its last event (clock units), and the number of its events.
pub fn span(page: &[u8]) -> Option<(u64, u64, u64)> {
    let first = u64_at(page, 0)?;
    let (mut now, mut events) = (first, 0);
    walk(page, |at, kind, word| {
        let delta = u64::from(word >> 5);
        let wide = u64::from(u32_at(page, at + 4).unwrap_or(0)) << 27 | delta;
        match kind {
            STAMP => now = wide | now & !((1 << 59) - 1),
            EXTEND => now += wide,
            PADDING => now += delta,
            _ => {
                now += delta;
                events += 1;
            }
        }
    });
    Some((first, now, events))
}

/// Moves all times of a page on by `shift` (clock units): that of the page, and absolute stamps.
pub fn shift(page: &mut [u8], shift: u64) {
    let Some(first) = u64_at(page, 0) else {
        return;
    };
    let mut stamps = Vec::new();
    walk(page, |at, kind, word| {
        if kind == STAMP {
            stamps.push((at, word));
        }
    });
    put(page, 0, &first.wrapping_add(shift).to_le_bytes());
    for (at, word) in stamps {
        let high = u64::from(u32_at(page, at + 4).unwrap_or(0));
        let stamp = (high << 27 | u64::from(word >> 5)).wrapping_add(shift) & ((1 << 59) - 1);
        let low = (stamp as u32) << 5 | STAMP;
        put(page, at, &low.to_le_bytes());
        put(page, at + 4, &((stamp >> 27) as u32).to_le_bytes());
    }
}
