//! The names of the ways that I/Os take.

use std::fmt::Write;

use smallvec::SmallVec;

use crate::io::IoRequest;
use crate::limits;
use crate::rwbs::Rwbs;
use crate::slab::IntMap;

/// A run of like requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Step {
    count: u32,
    sectors: u32,
    rwbs: Rwbs,
    helper: bool,
    detached: bool,
}

impl Step {
    fn of(request: &IoRequest) -> Self {
        Self {
            count: 1,
            sectors: request.sectors,
            rwbs: request.rwbs,
            helper: request.helper,
            detached: request.detached,
        }
    }
}

type Way = SmallVec<[Step; 1]>;

/// All ways seen, each with a number.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    numbers: IntMap<Way, u32>,
    names: Vec<String>,
    /// The last way, since the next one is mostly the same.
    last: Option<(Way, u32)>,
    work: Way,
}

impl Paths {
    /// The number of the way of these requests, in the order given.
    #[inline]
    pub(crate) fn number(&mut self, requests: &[IoRequest]) -> u32 {
        if let ([only], Some((way, number))) = (requests, &self.last) {
            if matches!(way.as_slice(), [step] if *step == Step::of(only)) {
                return *number;
            }
        }
        self.look_up(requests)
    }

    #[inline(never)]
    fn look_up(&mut self, requests: &[IoRequest]) -> u32 {
        let work = &mut self.work;
        work.clear();
        for r in requests {
            let step = Step::of(r);
            match work.last_mut() {
                Some(last) if (Step { count: 1, ..*last }) == step => last.count += 1,
                _ => work.push(step),
            }
        }
        if let Some((way, number)) = &self.last {
            if way == work {
                return *number;
            }
        }
        let number = match self.numbers.get(work) {
            Some(&number) => number,
            None if self.names.len() >= limits::PATHS => return u32::MAX,
            None => {
                let number = self.names.len() as u32;
                self.names.push(name(work));
                self.numbers.insert(work.clone(), number);
                number
            }
        };
        self.last = Some((work.clone(), number));
        number
    }

    /// Those so far.
    pub(crate) fn so_far(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn names(self) -> Vec<String> {
        self.names
    }
}

/// Name of one request: letters, then KiB, with a half for an odd sector.
fn label(rwbs: Rwbs, sectors: u32) -> String {
    let half = if sectors % 2 == 1 { ".5" } else { "" };
    match sectors {
        0 => rwbs.letters(),
        _ => format!("{}{}{half}", rwbs.letters(), sectors / 2),
    }
}

fn name(way: &Way) -> String {
    let mut name = String::new();
    for step in way {
        if !name.is_empty() {
            name.push('+');
        }
        if step.count > 1 {
            // Writing to a String cannot fail.
            let _ = write!(name, "{}x", step.count);
        }
        if step.helper {
            name.push('h');
        }
        name.push_str(&label(step.rwbs, step.sectors));
        if step.detached {
            name.push('d');
        }
    }
    name
}
