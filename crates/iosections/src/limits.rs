//! What a hostile trace cannot make grow. Far above what real machines have in flight; whatever
//! goes over is forgotten and shows in the counts, never guessed.

/// Requests in flight, bios waiting, tags in use, on all devices together.
pub(crate) const IN_FLIGHT: usize = 1 << 16;
/// Requests that share a chain of places, bios near a request's place, bios waiting for a flush of one
/// device: whatever goes through them one by one shall not take long for each event.
pub(crate) const NEAR: usize = 1 << 11;
/// Open I/Os.
pub(crate) const OPEN_IOS: usize = 1 << 16;
/// Bios, requests or pieces of one I/O: 1 GiB in 4 KiB bios has 2^18.
pub(crate) const PARTS: usize = 1 << 18;
/// Tasks remembered.
pub(crate) const TASKS: usize = 1 << 16;
/// Devices with bios or requests.
pub(crate) const DEVICES: usize = 256;
/// CPUs.
pub(crate) const CPUS: u32 = 1 << 14;
/// Different paths that are told apart; the rest is called `other`.
pub(crate) const PATHS: usize = 1 << 12;
/// I/Os of one call or of one task that wait for the call's end or for being reaped.
pub(crate) const BATCH: usize = 1 << 13;
