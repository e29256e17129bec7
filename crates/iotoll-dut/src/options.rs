//! The options that say what to measure; `record` and `live` share them.

use std::ffi::OsString;

use iorecord::{DeviceMark, Request, Unit};
use lexopt::prelude::*;

use crate::error::Error;

/// What to measure, and what to print of it.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) request: Request,
    pub(crate) unit: Unit,
    pub(crate) cells: bool,
    columns: bool,
    /// The own count of every section per I/O too: what an event costs is seen in them.
    pub(crate) own: bool,
}

impl Options {
    /// Takes one option of the command line if it is one of these; false if not.
    pub(crate) fn take(&mut self, name: &str, words: &mut lexopt::Parser) -> Result<bool, Error> {
        match name {
            "comm" => self.request.comm = Some(text("comm", words.value()?)?),
            "device" => self.request.device = Some(text("device", words.value()?)?),
            "device-mark" => self.request.device_mark = mark(&text(name, words.value()?)?)?,
            "unit" => {
                let unit = text("unit", words.value()?)?;
                self.unit = Unit::parse(&unit)
                    .map_err(|_| Error::usage(format!("--unit {unit}: use ns or instructions")))?;
            }
            "cells" => self.cells = true,
            "columns" => self.columns = true,
            "own" => self.own = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether per-I/O figures are wanted: the gate compares them on the clock `instructions`.
    pub(crate) fn columns(&self) -> bool {
        self.columns || self.own || self.unit == Unit::Instructions
    }

    /// What to analyse.
    pub(crate) fn request(&self) -> Request {
        Request {
            keep_ios: self.columns(),
            // Calibration, on both clocks, needs how many events a section has.
            count_events: true,
            ..self.request.clone()
        }
    }
}

fn mark(name: &str) -> Result<DeviceMark, Error> {
    match name {
        "auto" => Ok(DeviceMark::Auto),
        "last_before" => Ok(DeviceMark::LastBefore),
        _ => Err(Error::usage(format!(
            "--device-mark {name}: use auto or last_before"
        ))),
    }
}

/// The value of an option as text.
pub(crate) fn text(option: &str, value: OsString) -> Result<String, Error> {
    value
        .string()
        .map_err(|_| Error::usage(format!("--{option}: its value is no UTF-8")))
}

/// The value of an option as a number.
pub(crate) fn number(option: &str, value: OsString) -> Result<u64, Error> {
    let value = text(option, value)?;
    value
        .parse()
        .map_err(|_| Error::usage(format!("--{option} {value}: use a whole number")))
}
