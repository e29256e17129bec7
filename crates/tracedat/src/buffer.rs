//! The recorded instances of a trace.

/// Data of one CPU in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuPart {
    pub(crate) cpu: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// One recorded instance: a set of ring buffers, one for each CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buffer {
    pub(crate) name: String,
    pub(crate) clock: String,
    pub(crate) page_size: u32,
    pub(crate) packed: bool,
    pub(crate) parts: Vec<CpuPart>,
}

impl Buffer {
    /// Name of the instance; empty for the top one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of its trace clock, for example `local`; empty when the file does not say.
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// Size of its ring-buffer pages (bytes).
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Its CPUs, those without events included.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().map(|part| part.cpu)
    }

    /// Whether any CPU has data.
    pub fn has_data(&self) -> bool {
        self.parts.iter().any(|part| part.size > 0)
    }
}
