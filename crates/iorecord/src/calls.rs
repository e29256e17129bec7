//! Plain pairs of system call entry and exit, whatever became of them below.
//!
//! The measurement leaves out I/Os that the page cache served: they have no request. To compare a
//! trace with what user space saw, their durations are wanted too.

use std::collections::HashMap;
use std::path::Path;

use iosections::Op;
use tracedat::Accessor;

use crate::detail::walk;
use crate::error::Error;
use crate::source::Source;

/// One system call that began and ended in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which call.
    pub op: Op,
    /// Thread number of the task.
    pub pid: i32,
    /// Time of the entry (clock units of the trace).
    pub start: u64,
    /// Time of the exit.
    pub end: u64,
    /// What it returned: bytes, or a negative error number.
    pub ret: i64,
}

enum Side {
    Enter(Op),
    Exit(Op, Accessor),
}

/// The read and write calls of a trace in order of their exits. Entry and exit must follow each
/// other in one thread and be of one call. blktrace has none.
///
/// # Errors
/// When the trace cannot be read.
pub fn calls(path: impl AsRef<Path>) -> Result<Vec<Call>, Error> {
    let Source::Trace(trace) = Source::open(path)? else {
        return Ok(Vec::new());
    };
    let mut sides = HashMap::new();
    let mut common = None;
    for format in trace.formats().iter().filter(|f| f.system == "syscalls") {
        let enter = format.name.strip_prefix("sys_enter_").map(Op::from_name);
        let exit = format.name.strip_prefix("sys_exit_").map(Op::from_name);
        let (enter, exit) = (enter.flatten(), exit.flatten());
        // Those that are an I/O only by chance are none of user space's reads and writes.
        let certain = |op: &Op| !op.is_by_chance();
        let side = match (enter.filter(certain), exit.filter(certain)) {
            (Some(op), _) => Some(Side::Enter(op)),
            (_, Some(op)) => format.accessor("ret").map(|ret| Side::Exit(op, ret)),
            _ => None,
        };
        sides.extend(side.map(|side| (u64::from(format.id), side)));
        common = common.or(format
            .accessor("common_type")
            .zip(format.accessor("common_pid")));
    }
    let mut found = Vec::new();
    let Some((kind, task)) = common else {
        return Ok(found);
    };
    let mut open: HashMap<i32, (Op, u64)> = HashMap::new();
    walk(&trace, |record| {
        let side = kind.uint(record.data).and_then(|id| sides.get(&id));
        let pid = task.int(record.data).unwrap_or(0) as i32;
        match side {
            Some(Side::Enter(op)) => {
                open.insert(pid, (*op, record.ts));
            }
            Some(Side::Exit(op, ret)) => {
                if let Some((_, start)) = open.remove(&pid).filter(|(began, _)| began == op) {
                    found.push(Call {
                        op: *op,
                        pid,
                        start,
                        end: record.ts,
                        ret: ret.int(record.data).unwrap_or(0),
                    });
                }
            }
            None => {}
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(found)
}
