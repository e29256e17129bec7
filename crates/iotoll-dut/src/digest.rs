//! SHA-256 as text.

use std::fmt::Write;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// How much of a file is in memory while it is digested (bytes).
const PIECE: usize = 1 << 16;

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hex SHA-256 of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Hex SHA-256 of a file.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(piece.get(..count).unwrap_or_default());
    }
}
