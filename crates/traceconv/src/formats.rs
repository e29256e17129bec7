//! Event formats of records that are written from values.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::write::Machine;

/// Longest text of a field that is kept (bytes).
const TEXT: usize = 64;
/// Event formats that a file may bring; what comes beyond has no fields.
const LIMIT: usize = 4096;

/// How a field is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    U32,
    I32,
    U64,
    I64,
    /// `dev_t`: 12 bits major, 20 bits minor.
    Dev,
    /// Letters of `rwbs`.
    Rwbs,
    Text,
    /// Text up to the end of the record.
    Tail,
}

impl Ty {
    fn size(self) -> usize {
        match self {
            Self::U32 | Self::I32 | Self::Dev => 4,
            Self::U64 | Self::I64 => 8,
            Self::Rwbs => 10,
            Self::Text => TEXT,
            Self::Tail => 0,
        }
    }

    fn align(self) -> usize {
        match self {
            Self::U32 | Self::I32 | Self::Dev => 4,
            Self::U64 | Self::I64 => 8,
            Self::Rwbs | Self::Text | Self::Tail => 1,
        }
    }

    fn declare(self, name: &str) -> String {
        match self {
            Self::U32 => format!("unsigned int {name}"),
            Self::I32 => format!("int {name}"),
            Self::U64 => format!("u64 {name}"),
            Self::I64 => format!("long {name}"),
            Self::Dev => format!("dev_t {name}"),
            Self::Rwbs | Self::Text => format!("char {name}[{}]", self.size()),
            Self::Tail => format!("char {name}[]"),
        }
    }

    fn signed(self) -> bool {
        matches!(self, Self::I32 | Self::I64)
    }
}

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Of any integer, signed ones sign-extended.
    Number(u64),
    Text(&'a [u8]),
}

/// A field with its place in the record.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    ty: Ty,
    at: usize,
}

/// An event's number and fields.
#[derive(Debug, Clone)]
struct Format {
    system: String,
    name: String,
    fields: Vec<Field>,
    size: usize,
}

/// The formats so far. An event's number is its place, from 1.
#[derive(Debug)]
pub(crate) struct Formats {
    all: Vec<Format>,
    numbers: HashMap<(String, String), u16>,
    record: Vec<u8>,
}

/// The text that user space wrote has the number 1.
pub(crate) const PRINT: u16 = 1;

impl Default for Formats {
    fn default() -> Self {
        let mut formats = Self {
            all: Vec::new(),
            numbers: HashMap::new(),
            record: Vec::new(),
        };
        let fields = [("ip", Ty::U64), ("buf", Ty::Tail)];
        formats.add("ftrace", "print", fields.into_iter());
        formats
    }
}

impl Formats {
    /// The number of an event that is there already.
    pub(crate) fn number(&self, system: &str, name: &str) -> Option<u16> {
        let key = (system.to_owned(), name.to_owned());
        self.numbers.get(&key).copied()
    }

    /// The number of an event, which is described when it is new.
    pub(crate) fn add<'n>(
        &mut self,
        system: &str,
        name: &str,
        fields: impl Iterator<Item = (&'n str, Ty)>,
    ) -> u16 {
        if let Some(number) = self.number(system, name) {
            return number;
        }
        let mut format = Format {
            system: clean(system),
            name: clean(name),
            fields: Vec::new(),
            size: 8,
        };
        for (name, ty) in fields.filter(|_| self.all.len() < LIMIT) {
            let at = format.size.next_multiple_of(ty.align());
            format.size = at + ty.size();
            let name = clean(name);
            format.fields.push(Field { name, ty, at });
        }
        let full = self.all.len() > LIMIT;
        if !full {
            self.all.push(format);
        }
        let number = self.all.len() as u16;
        if !full {
            self.numbers
                .insert((system.to_owned(), name.to_owned()), number);
        }
        number
    }

    /// The fields of an event, in the order of its values; none when it is new.
    pub(crate) fn fields(&self, system: &str, name: &str) -> Vec<(String, Ty)> {
        let number = self.number(system, name);
        let place = number.and_then(|number| usize::from(number).checked_sub(1));
        let format = place.and_then(|place| self.all.get(place));
        let fields = format.into_iter().flat_map(|f| &f.fields);
        fields.map(|f| (f.name.clone(), f.ty)).collect()
    }

    /// The record of an event: values in the order of its fields; those that are missing are 0.
    pub(crate) fn record(&mut self, number: u16, pid: i32, values: &[Option<Value<'_>>]) -> &[u8] {
        let record = &mut self.record;
        record.clear();
        let Some(format) = usize::from(number)
            .checked_sub(1)
            .and_then(|place| self.all.get(place))
        else {
            return record;
        };
        record.resize(format.size, 0);
        put(record, 0, &number.to_le_bytes());
        put(record, 4, &pid.to_le_bytes());
        for (field, value) in format.fields.iter().zip(values) {
            match (field.ty, value) {
                (_, None) => {}
                (Ty::Tail, Some(Value::Text(text))) => {
                    record.extend_from_slice(text);
                    record.push(0);
                }
                (ty, Some(Value::Number(number))) => {
                    if matches!(ty, Ty::Rwbs | Ty::Text | Ty::Tail) {
                        continue;
                    }
                    let bytes = number.to_le_bytes();
                    put(record, field.at, bytes.get(..ty.size()).unwrap_or_default());
                }
                (ty, Some(Value::Text(text))) => {
                    // The last byte stays a NUL.
                    let len = text.len().min(ty.size().saturating_sub(1));
                    if matches!(ty, Ty::Rwbs | Ty::Text) {
                        put(record, field.at, text.get(..len).unwrap_or_default());
                    }
                }
            }
        }
        record
    }

    /// All formats as a trace.dat has them: those of `ftrace`, then those of all other groups.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let machine = Machine::OWN;
        let mut groups: Vec<(&str, Vec<String>)> = vec![("ftrace", Vec::new())];
        for (number, format) in (1_u16..).zip(&self.all) {
            let system = format.system.as_str();
            let place = groups.iter().position(|g| g.0 == system);
            let place = place.unwrap_or_else(|| {
                groups.push((system, Vec::new()));
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(place) {
                group.1.push(format.text(number));
            }
        }
        let mut out = Vec::new();
        for (place, (system, texts)) in groups.iter().enumerate() {
            if place == 1 {
                out.extend(machine.u32(groups.len() as u32 - 1));
            }
            if place > 0 {
                out.extend(system.as_bytes());
                out.push(0);
            }
            out.extend(machine.u32(texts.len() as u32));
            for text in texts {
                out.extend(machine.u64(text.len() as u64));
                out.extend(text.as_bytes());
            }
        }
        if groups.len() == 1 {
            out.extend([0; 4]);
        }
        out
    }
}

impl Format {
    fn text(&self, number: u16) -> String {
        let mut text = format!("name: {}\nID: {number}\nformat:\n", self.name);
        let common = [
            ("unsigned short common_type", 0, 2, 0),
            ("unsigned char common_flags", 2, 1, 0),
            ("unsigned char common_preempt_count", 3, 1, 0),
            ("int common_pid", 4, 4, 1),
        ];
        for (field, at, size, signed) in common {
            let _ = writeln!(
                text,
                "\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:{signed};"
            );
        }
        text.push('\n');
        for Field { name, ty, at } in &self.fields {
            let (field, size) = (ty.declare(name), ty.size());
            let signed = u8::from(ty.signed());
            let _ = writeln!(
                text,
                "\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:{signed};"
            );
        }
        text.push_str("\nprint fmt: \"\"\n");
        text
    }
}

/// A name that can stand in a format's text.
fn clean(name: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    let kept = name.chars().take(TEXT);
    kept.map(|c| if word(c) { c } else { '_' }).collect()
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = record.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}
