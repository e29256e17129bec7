//! Chooses the options of the measurement by which events a trace has.

use iosections::Options;
use tracedat::{Entry, Trace};

use crate::bind::Binding;
use crate::error::Error;
use crate::facts::Facts;
use crate::request::{DeviceMark, Request};
use crate::window::Window;

/// Events looked at beforehand, to know which kinds a window has.
const SAMPLE: usize = 1 << 14;

/// What each window begins with, by which its [`Options`] are chosen. The engine turns to an event
/// that comes later when it comes; those of the beginning it must know before the first I/O, whose
/// sections may depend on them.
///
/// Each window's own beginning counts, not the trace's: a batch may go on to another driver, or
/// switch probes on. All windows are looked at in one walk, which ends with the last one's
/// beginning, and which a trace without such events does not need at all.
pub(crate) fn samples(
    trace: &Trace,
    binding: &Binding,
    windows: &[Window],
) -> Result<Vec<Facts>, Error> {
    let mut samples: Vec<Facts> = windows.iter().map(|_| Facts::default()).collect();
    let optional = options_of(trace, &Request::default(), |_| true);
    if optional == options_of(trace, &Request::default(), |_| false) {
        return Ok(samples);
    }
    let mut waiting = windows.iter().zip(&mut samples);
    let (mut current, mut left) = (waiting.next(), SAMPLE);
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        let Entry::Event(record) = entry else {
            continue;
        };
        while left == 0 || current.as_ref().is_some_and(|(w, _)| w.is_over(record.ts)) {
            (current, left) = (waiting.next(), SAMPLE);
        }
        let Some((window, sample)) = &mut current else {
            break;
        };
        if window.has_begun(record.ts) {
            sample.count(binding.header.read(record.data).0);
            left -= 1;
        }
    }
    drop(waiting);
    Ok(samples)
}

/// Options by which events occur.
pub(crate) fn options_of(
    trace: &Trace,
    request: &Request,
    occurs: impl Fn(u16) -> bool,
) -> Options {
    let has = |system: &str, wanted: &dyn Fn(&str) -> bool| {
        let mut formats = trace.formats().iter();
        formats.any(|f| f.system == system && wanted(&f.name) && occurs(f.id))
    };
    let auto = request.device_mark == DeviceMark::Auto;
    Options {
        use_queue_return: auto && has("iotoll", &crate::bind::is_queue_return),
        ignore_queue_return: !auto,
        has_nvme_complete: has("nvme", &|name| name == "nvme_complete_rq"),
        bios_are_ios: false,
        without_calls: request.without_calls,
        count_events: request.count_events,
    }
}
