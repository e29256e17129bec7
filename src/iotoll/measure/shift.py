"""By how much did a spectrum of instruction counts move? The statistic of the deterministic gate.

On the instructions clock, a section's counts over the I/Os of a cell are not a bell but a spectrum
of peaks: a few exact values, one for each way through the code, each hit by many I/Os. How often
each value is hit varies between boots of one kernel (which tag was free, which timer was due); the
values themselves do not, but for a few instructions. A patch that adds N instructions to the path
moves the whole spectrum by N. So the shift is found by sliding one spectrum over the other until
they overlap best, which neither the weights of the peaks nor outliers disturb, as they would a mean
or median.

The overlap is the Bhattacharyya coefficient (Bhattacharyya 1943) of the two histograms, smoothed
over a few instructions; as a function of the shift it is a cross-correlation of square roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SMOOTHING = np.array([1, 2, 1], dtype=np.float64) / 4
"""Kernel (instructions): the spectrum wanders between boots as a whole, its peaks hardly at all.

A wider one blurs peaks that are ten instructions apart, and a shift of 20 with them.
"""

REACH = 4096
"""Largest shift that is looked for, either way, in instructions; the median bounds larger ones."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Shift:
    """Candidate against base, in instructions.

    ``delta`` is the shift with the best overlap and ``overlap`` that overlap (0 to 1);
    ``overlap_still`` is the best overlap with any shift within the tolerance asked for.
    """

    delta: int
    overlap: float
    overlap_still: float


def measure_shift(base: Sequence[int], candidate: Sequence[int], tolerance: int) -> Shift:
    """Find by how many instructions the counts moved from ``base`` to ``candidate``.

    Both hold one count per I/O and must not be empty. A shift within ``±tolerance`` is taken when
    it explains the candidate as well as the best one elsewhere.
    """
    before, after = np.asarray(base, np.int64), np.asarray(candidate, np.int64)
    scores = np.clip(_overlaps(before, after), 0.0, 1.0)  # the FFT rounds to either side
    shifts = np.arange(-REACH, REACH + 1)
    still = np.abs(shifts) <= tolerance
    best = int(np.argmax(scores))
    return Shift(
        delta=int(shifts[best]),
        overlap=float(scores[best]),
        overlap_still=float(scores[still].max()),
    )


def _overlaps(before: Counts, after: Counts) -> NDArray[np.float64]:
    """Overlap for every shift from -REACH to +REACH."""
    start, size = _span(before, after, REACH + len(SMOOTHING))
    p, q = (_root(counts, start, size) for counts in (before, after))
    length = 1 << (2 * size - 1).bit_length()
    product = np.fft.rfft(q, length) * np.conj(np.fft.rfft(p, length))
    correlation = np.fft.irfft(product, length)
    return np.concatenate([correlation[length - REACH :], correlation[: REACH + 1]])


def _span(a: Counts, b: Counts, pad: int) -> tuple[int, int]:
    """Start and size of histograms that hold both, with ``pad`` free places at either end.

    Outliers beyond the bulk cannot be part of the spectrum; without them the histograms stay small.
    """
    low, high = min(_floor(a), _floor(b)), max(_ceiling(a), _ceiling(b))
    return low - pad, high - low + 1 + 2 * pad


def _floor(counts: Counts) -> int:
    return int(np.quantile(counts, 0.02, method="lower"))


def _ceiling(counts: Counts) -> int:
    return int(np.quantile(counts, 0.9, method="higher"))


def _root(counts: Counts, start: int, size: int) -> NDArray[np.float64]:
    inside = counts[(counts >= start) & (counts < start + size)] - start
    histogram = np.bincount(inside, minlength=size).astype(np.float64) / len(counts)
    smooth = np.convolve(histogram, SMOOTHING, mode="same")
    return np.asarray(np.sqrt(smooth))
