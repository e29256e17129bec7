"""What the data at an address is called: a kernel's own by its System.map, other data by kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotoll.core.errors import InfrastructureError

HEAP, STRUCT_PAGE, STACK, USER = "heap", "struct page", "vmalloc", "user memory"
"""Data that no symbol names. Of vmalloc are the kernel's stacks, above all."""

_USER_END = 1 << 63
_LINEAR_END = 0xFFFF_8000_0000_0000
_VMEMMAP = 0xFFFF_FC00_0000_0000
"""Linux 6.12 on arm64 with addresses of 48 bits (Documentation/arch/arm64/memory.rst)."""

_CODE = (("_stext", "_etext"), ("__inittext_begin", "__exittext_end"))
"""Between which symbols the kernel has its instructions (arch/arm64/kernel/vmlinux.lds.S)."""

_OFFSETS = "__per_cpu_offset"


@dataclass(frozen=True, eq=False)
class DataNames:
    """All symbols of a kernel by address, shape (symbols,), and where its CPUs' own data is.

    ``own`` is from where to before where the kernel was linked to have each CPU's own data, and
    ``distances`` how far from it each CPU has them. ``code`` are the same of all instructions.
    """

    starts: npt.NDArray[np.uint64]
    names: tuple[str, ...]
    ends: int
    own: tuple[int, int]
    code: tuple[tuple[int, int], ...]
    distances: tuple[int, ...] = ()

    @classmethod
    def read(cls, path: Path) -> DataNames:
        """Those of a System.map; raises InfrastructureError where it is none."""
        try:
            rows = [line.split() for line in path.read_text().splitlines()]
            known = {name: int(address, 16) for address, _, name in rows}
            kept = {int(a, 16): name for a, kind, name in rows if kind not in "aA" and "$" not in a}
            own = known["__per_cpu_start"], known["__per_cpu_end"]
            end = known["_end"]
            code = tuple((known[low], known[high]) for low, high in _CODE)
        except (OSError, ValueError, LookupError) as error:
            raise InfrastructureError(f"{path}: is not a System.map: {error!r}") from error
        starts = np.array(sorted(kept), np.uint64)
        return cls(starts, tuple(kept[int(one)] for one in starts), end, own, code)

    def distances_at(self) -> int | None:
        """Where the kernel keeps how far its CPUs' own data is; None if it has no such array."""
        return int(self.starts[self.names.index(_OFFSETS)]) if _OFFSETS in self.names else None

    def name(self, address: int) -> str:
        """The symbol, or what kind of memory it is."""
        if address < _USER_END:
            return USER
        for distance in self.distances:
            linked = (address - distance) % (1 << 64)
            if self.own[0] <= linked < self.own[1]:
                return f"per-CPU {self._symbol(linked)}"
        if int(self.starts[0]) <= address < self.ends:
            return self._symbol(address)
        if address < _LINEAR_END:
            return HEAP
        return STRUCT_PAGE if address >= _VMEMMAP else STACK

    def _symbol(self, address: int) -> str:
        at = int(np.searchsorted(self.starts, np.uint64(address), side="right")) - 1
        return self.names[at]
