//! Gives executed code to I/Os.

use crate::io::{Ios, Mode, Piece};
use crate::slab::Ref;

/// Gives a piece to an I/O.
#[inline]
pub(crate) fn give(ios: &mut Ios, to: Ref, mode: Mode, piece: Piece) {
    if let Some(io) = ios.get_mut(to) {
        io.add(Piece { mode, ..piece });
    }
}

pub(crate) fn give_all(ios: &mut Ios, to: Ref, mode: Mode, pieces: &mut Vec<Piece>) {
    for piece in pieces.drain(..) {
        give(ios, to, mode, piece);
    }
}
