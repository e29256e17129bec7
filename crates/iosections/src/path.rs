//! The name of the way that an I/O took.

use std::fmt::Write;

use crate::event::Rwbs;
use crate::io::IoRequest;

/// Name of one request: letters, then KiB, with a half for an odd sector.
fn label(rwbs: Rwbs, sectors: u32) -> String {
    let half = if sectors % 2 == 1 { ".5" } else { "" };
    match sectors {
        0 => rwbs.letters(),
        _ => format!("{}{}{half}", rwbs.letters(), sectors / 2),
    }
}

/// The signature of the requests, in the order given.
pub(crate) fn path(requests: &[IoRequest]) -> String {
    let same = |a: &IoRequest, b: &IoRequest| {
        (a.rwbs, a.sectors, a.helper, a.detached) == (b.rwbs, b.sectors, b.helper, b.detached)
    };
    let mut path = String::new();
    for run in requests.chunk_by(same) {
        let Some(first) = run.first() else { continue };
        if !path.is_empty() {
            path.push('+');
        }
        if run.len() > 1 {
            // Writing to a String cannot fail.
            let _ = write!(path, "{}x", run.len());
        }
        if first.helper {
            path.push('h');
        }
        path.push_str(&label(first.rwbs, first.sectors));
        if first.detached {
            path.push('d');
        }
    }
    path
}
