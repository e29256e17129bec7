//! The `format` text that a trace carries for each event: where its fields are.

use crate::access::{Accessor, Location};
use crate::bytes::{Endian, lossy};

/// One field of an event's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name without any array brackets.
    pub name: String,
    /// C type as printed, for example `unsigned int` or `char[]`.
    pub kind: String,
    /// Offset in the record (bytes).
    pub offset: usize,
    /// Size in the record (bytes); of the locator word for dynamic fields.
    pub size: usize,
    /// Whether an integer is sign-extended.
    pub signed: bool,
    /// In place, or behind a locator word.
    pub location: Location,
}

/// An event's description.
#[derive(Debug, Clone)]
pub struct EventFormat {
    /// The group, for example `block`.
    pub system: String,
    /// The event, for example `block_rq_issue`.
    pub name: String,
    /// The number in `common_type`.
    pub id: u16,
    text: String,
    endian: Endian,
}

impl EventFormat {
    /// Parses a format file of the group `system`; `None` without a name or an ID that fits in
    /// 16 bits.
    pub fn parse(system: &str, text: &[u8], endian: Endian) -> Option<Self> {
        let text = lossy(text);
        let line = |key: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(key))
                .map(str::trim)
        };
        let name = line("name:")?.to_owned();
        let id = line("ID:")?.parse().ok()?;
        Some(Self {
            system: system.to_owned(),
            name,
            id,
            text,
            endian,
        })
    }

    /// All fields in the order of the format, the common ones first.
    pub fn fields(&self) -> Vec<Field> {
        self.text.lines().filter_map(parse_field).collect()
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields().into_iter().find(|f| f.name == name)
    }

    /// An accessor for the field of this name; `None` when this kernel's event lacks it.
    pub fn accessor(&self, name: &str) -> Option<Accessor> {
        self.field(name).map(|f| self.accessor_of(&f))
    }

    /// An accessor for one of its own fields.
    pub fn accessor_of(&self, field: &Field) -> Accessor {
        Accessor::new(field, self.endian)
    }

    /// The `print fmt` line.
    pub fn print_fmt(&self) -> &str {
        self.text
            .find("print fmt:")
            .and_then(|at| self.text.get(at..))
            .unwrap_or_default()
    }

    /// Number → string pairs of `__print_symbolic(REC->field, {0, "a"}, …)` in the print format.
    /// A name that is not a number (an enum that the kernel left unresolved) takes its position.
    pub fn symbols(&self, field: &str) -> Vec<(u64, String)> {
        let fmt = self.print_fmt();
        let Some(args) = fmt.split("__print_symbolic(").skip(1).find(|args| {
            args.trim_start()
                .strip_prefix("REC->")
                .is_some_and(|r| is_word(r, field))
        }) else {
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (position, pair) in args.split('{').skip(1).enumerate() {
            let Some((number, rest)) = pair.split_once(',') else {
                break;
            };
            let Some(text) = rest.split('"').nth(1) else {
                break;
            };
            pairs.push((
                parse_number(number.trim()).unwrap_or(position as u64),
                text.to_owned(),
            ));
            let after = rest
                .split_once('}')
                .map_or("", |(_, after)| after)
                .trim_start();
            if !after.starts_with(',') {
                break;
            }
        }
        pairs
    }
}

/// Whether `text` starts with `word` followed by a character that cannot continue a name.
fn is_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Largest field (bytes): the data of a ring-buffer page.
const SIZE_LIMIT: u32 = 16 << 20;

/// Parses `\tfield:TYPE NAME;\toffset:N;\tsize:N;\tsigned:N;`.
pub(crate) fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", n)) => offset = n.parse::<u16>().ok(),
            Some(("size", n)) => size = n.parse::<u32>().ok().filter(|&n| n <= SIZE_LIMIT),
            Some(("signed", n)) => signed = n == "1",
            _ => {}
        }
    }
    let (kind, name) = split_declaration(declaration)?;
    let location = if kind.starts_with("__data_loc") {
        Location::Data
    } else if kind.starts_with("__rel_loc") {
        Location::Relative
    } else {
        Location::Fixed
    };
    Some(Field {
        name,
        kind,
        offset: usize::from(offset?),
        size: size? as usize,
        signed,
        location,
    })
}

/// Splits `char rwbs[10]` into `char[10]` and `rwbs`.
fn split_declaration(declaration: &str) -> Option<(String, String)> {
    let (kind, name) = declaration.rsplit_once(' ')?;
    let (name, brackets) = name.find('[').map_or((name, ""), |at| name.split_at(at));
    let name = name.trim_start_matches('*');
    Some((format!("{}{brackets}", kind.trim()), name.to_owned()))
}
