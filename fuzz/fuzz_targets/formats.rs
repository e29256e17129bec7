//! An event's format text: its fields and symbols, and records read by them. The first byte
//! chooses the byte order, the second how long the record is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracedat::{Endian, EventFormat};

fuzz_target!(|bytes: &[u8]| {
    let [order, len, text @ ..] = bytes else {
        return;
    };
    let endian = if order & 1 == 0 { Endian::Little } else { Endian::Big };
    let Some(format) = EventFormat::parse("test", text, endian) else {
        return;
    };
    // The text itself serves as the record: it holds any numbers.
    let record = text.get(..usize::from(*len).min(text.len())).unwrap_or_default();
    for field in format.fields() {
        let accessor = format.accessor_of(&field);
        let value = accessor.uint(record);
        assert_eq!(value.is_some(), field.offset + field.size <= record.len());
        std::hint::black_box((accessor.int(record), accessor.bytes(record)));
        std::hint::black_box(accessor.text(record));
        std::hint::black_box(format.symbols(&field.name));
    }
    std::hint::black_box(format.print_fmt().len());
});
