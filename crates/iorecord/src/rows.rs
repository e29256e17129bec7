//! I/Os that are summed up together: one quantity after the other, each in one short loop, and not
//! all of them between the events.

use iosections::IoResult;

use crate::bins::BLOCK;

/// One quantity of the I/Os.
type Column = [u64; BLOCK];

/// What is summed up of some I/Os.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    filled: usize,
    columns: Box<Columns>,
}

#[derive(Debug, Clone)]
struct Columns {
    elapsed: [Column; 5],
    own: [Column; 5],
    /// Own time on the way of the first request in `vfs_fs` and `submission`, and how many I/Os
    /// have it.
    first: [Column; 2],
    firsts: usize,
    /// The same in `completion`.
    completion: Column,
    completions: usize,
}

impl Default for Rows {
    fn default() -> Self {
        let empty = [0; BLOCK];
        Self {
            filled: 0,
            columns: Box::new(Columns {
                elapsed: [empty; 5],
                own: [empty; 5],
                first: [empty; 2],
                firsts: 0,
                completion: empty,
                completions: 0,
            }),
        }
    }
}

impl Rows {
    /// Adds an I/O. Gives whether they are to be summed up now.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, io: &IoResult) -> bool {
        let (row, columns) = (self.filled % BLOCK, &mut *self.columns);
        put(&mut columns.elapsed, row, io.elapsed);
        put(&mut columns.own, row, io.own);
        if let Some(first) = io.first {
            let row = columns.firsts % BLOCK;
            put(&mut columns.first, row, [first.vfs_fs, first.submission]);
            columns.firsts = row + 1;
            if let Some(own) = first.completion {
                let row = columns.completions % BLOCK;
                columns.completion[row] = own;
                columns.completions = row + 1;
            }
        }
        self.filled = row + 1;
        self.filled == BLOCK
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        (self.columns.firsts, self.columns.completions) = (0, 0);
    }

    /// By section: elapsed time and own time.
    pub(crate) fn sections(&self) -> [[&[u64]; 2]; 5] {
        let Columns { elapsed, own, .. } = &*self.columns;
        let part = |column| head(column, self.filled);
        std::array::from_fn(|section| [part(&elapsed[section]), part(&own[section])])
    }

    /// Own time on the way of the first request, by section.
    pub(crate) fn first(&self) -> [&[u64]; 5] {
        let [fs, submission] = &self.columns.first;
        let part = |column| head(column, self.columns.firsts);
        let completion = head(&self.columns.completion, self.columns.completions);
        [part(fs), part(submission), &[], completion, &[]]
    }

    /// Gives elapsed time and own time in the sections that are overhead together.
    pub(crate) fn overhead<R>(&self, to: impl FnOnce([&[u64]; 2]) -> R) -> R {
        let sum = |[fs, submission, _, completion, _]: &[Column; 5]| -> Column {
            std::array::from_fn(|row| sum([fs[row], submission[row], completion[row]]))
        };
        to([sum(&self.columns.elapsed), sum(&self.columns.own)]
            .each_ref()
            .map(|c| head(c, self.filled)))
    }

    /// Gives those in all sections together.
    pub(crate) fn total<R>(&self, to: impl FnOnce([&[u64]; 2]) -> R) -> R {
        let sum = |columns: &[Column; 5]| -> Column {
            std::array::from_fn(|row| sum(columns.each_ref().map(|column| column[row])))
        };
        to([sum(&self.columns.elapsed), sum(&self.columns.own)]
            .each_ref()
            .map(|c| head(c, self.filled)))
    }
}

/// Own time in several sections may be more than a number holds only where a trace is damaged.
fn sum<const N: usize>(values: [u64; N]) -> u64 {
    values.into_iter().fold(0, u64::wrapping_add)
}

fn head(column: &Column, filled: usize) -> &[u64] {
    column.get(..filled).unwrap_or_default()
}

fn put<const N: usize>(columns: &mut [Column; N], row: usize, values: [u64; N]) {
    for (column, value) in columns.iter_mut().zip(values) {
        column[row] = value;
    }
}
