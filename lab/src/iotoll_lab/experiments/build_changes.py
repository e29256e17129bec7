"""Changes of a kernel's source that make or ccache could miss, for ``iotoll experiment builds``.

They are made on Debian's kernel, cut down to what a build takes seconds for: real makefiles,
scripts, Kconfig and headers, two files of block/, and a folder ``iotoll/`` with what a change hooks
into. Its Image is the linked objects and the linker script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Read = Callable[[str], str]
"""Gives a file of the kernel's source by its path."""


@dataclass(frozen=True)
class Link:
    """A symbolic link and where it points."""

    target: str


Edits = Mapping[str, str | Link | None]
"""New contents by path; None removes."""


@dataclass(frozen=True)
class State:
    """A source that differs from the base by ``edits``; ``same`` where its image must not."""

    name: str
    what: str
    edits: Edits
    same: bool = False


KEPT = re.compile(
    r"^(?:[^/]+$|(?:include|scripts|usr|block|lib/vdso|tools/include|security)/"
    r"|arch/arm64/(?!boot/dts)|kernel/(?:bounds|time/)|rust/Makefile|lib/[^/]+$)"
    r"|(?:^|/)(?:Kconfig|Makefile|Kbuild)[^/]*$"
)
"""The files of the small tree: git looks at each of a whole one's 80,000 in each build."""
_BLOCK = "blk-core.o ioprio.o"
_LEFT_OUT = {
    "scripts: scripts_basic scripts_dtc": "scripts: scripts_basic",
    "\t$(Q)$(MAKE) $(build)=scripts/mod\n": "",
    "vmlinux: vmlinux.o $(KBUILD_LDS) modpost": "vmlinux: vmlinux.o $(KBUILD_LDS)",
}
"""Programs for this machine that the small kernel needs none of: half of its build."""
_VALUE = "int iotoll_{0}(void) {{ return {1}; }}\n"
_MAKEFILE = r"""
ccflags-y := -I$(src)/early -I$(obj) -I$(src)/late
asflags-y := -I$(src)/early -I$(src)/late -Wa,-I$(src)
obj-y := plain.o shadow.o next.o probes.o generated.o flagged.o assembly.o options.o removed.o
obj-y += parts.o $(patsubst $(src)/wild/%.c,wild/%.o,$(wildcard $(src)/wild/*.c))
obj-$(CONFIG_IOTOLL_CHOSEN) += chosen.o
CFLAGS_flagged.o := -DFLAG=1
-include $(src)/extra.mk
ifneq ($(wildcard $(src)/forced.h),)
ccflags-y += -include $(src)/forced.h
endif

hostprogs := gen
targets += made.h
quiet_cmd_made = GEN     $@
      cmd_made = $(obj)/gen > $@
$(obj)/made.h: $(obj)/gen FORCE
	$(call if_changed,made)

# Neither notices another recipe.
quiet_cmd_table = TABLE   $@
      cmd_table = sed 's/.*/\#define TABLE &/' $< > $@
$(obj)/table.h: $(src)/table.tbl
	$(call cmd,table)
quiet_cmd_parts = PARTS   $@
      cmd_parts = cat $^ > $@
$(obj)/parts.c: $(wildcard $(src)/parts/*.txt)
	$(call cmd,parts)
$(obj)/generated.o: $(obj)/made.h $(obj)/table.h
"""
_KCONFIG = """
config IOTOLL_DEFAULT
	bool
	default n

config IOTOLL_PASTED
	bool
	default n

config IOTOLL_SELECTED
	bool

config IOTOLL_SELECTS
	bool
	default y

choice
	prompt "which"
	default IOTOLL_FIRST

config IOTOLL_FIRST
	bool "first"

config IOTOLL_CHOSEN
	bool "second"

endchoice
"""
_GEN = """#include <stdio.h>
int main(void) { puts("#define MADE 1"); return 0; }
"""
_FILES: dict[str, str] = {
    "Makefile": _MAKEFILE,
    "Kconfig": _KCONFIG,
    "plain.c": '#include <asm/div64.h>\n#include "quote.h"\n#ifndef DIV\n#define DIV 1\n#endif\n'
    + _VALUE.format("plain", "QUOTE + DIV"),
    "shadow.c": "#include <shadow.h>\n#include <case.h>\n#include <gone.h>\n#include <link.h>\n"
    + _VALUE.format("shadow", "SHADOW + CASE * 10 + GONE * 100 + LINK * 1000"),
    "next.c": "#include <next.h>\n" + _VALUE.format("next", "NEXT"),
    "probes.c": '#if __has_include("optional.h")\n#include "optional.h"\n'
    "#else\n#define OPTIONAL 1\n#endif\n#ifndef FORCED\n#define FORCED 1\n#endif\n"
    + _VALUE.format("probes", "OPTIONAL + FORCED"),
    "generated.c": '#include "made.h"\n#include "table.h"\n'
    + _VALUE.format("generated", "MADE + TABLE"),
    "flagged.c": "#ifndef WHOLE\n#define WHOLE 0\n#endif\n"
    + _VALUE.format("flagged", "FLAG + WHOLE"),
    "assembly.S": "#include <sign.h>\n.data\n.globl iotoll_sign\niotoll_sign: .long SIGN\n"
    '.incbin "data.bin"\n',
    "options.c": "#include <linux/kconfig.h>\n#define ON(x) IS_ENABLED(CONFIG_IOTOLL_##x)\n"
    + _VALUE.format(
        "options",
        "IS_ENABLED(CONFIG_IOTOLL_DEFAULT) + 2 * IS_ENABLED(CONFIG_IOTOLL_SELECTED)"
        " + 4 * ON(PASTED)",
    ),
    "removed.c": _VALUE.format("removed", "1"),
    "chosen.c": _VALUE.format("chosen", "1"),
    "wild/one.c": _VALUE.format("one", "1"),
    "parts/a.txt": "int iotoll_part_a = 1;\n",
    "parts/b.txt": "int iotoll_part_b = 1;\n",
    "gen.c": _GEN,
    "table.tbl": "1\n",
    "data.bin": "data\n",
    "late/quote.h": "#define QUOTE 1\n",
    "late/shadow.h": "#define SHADOW 1\n",
    "late/next.h": "#define NEXT 1\n",
    "late/case.h": "#define CASE 1\n",
    "late/gone.h": "#define GONE 1\n",
    "late/link.h": "#define LINK 1\n",
    "late/sign.h": "#define SIGN 1\n",
    "other/shadow.h": "#define SHADOW 7\n",
    "other/link.h": "#define LINK 7\n",
}
_SHADOW = """#ifndef _LINUX_BLKZONED_H
#define _LINUX_BLKZONED_H
#include <uapi/linux/blkzoned.h>
#include <linux/percpu-refcount.h>
static inline bool blkz_tryget(struct percpu_ref *ref)
{
	int n = 5;

	while (n--)
		cpu_relax();
	return percpu_ref_tryget_live_rcu(ref);
}
#define percpu_ref_tryget_live_rcu(ref)	blkz_tryget(ref)
#endif
"""


def base(read: Read) -> Edits:
    """What makes the small tree of a whole one."""
    kbuild = read("Kbuild")
    first = re.search(r"^obj-y\s+\+= init/$", kbuild, re.M)
    assert first is not None, "Kbuild of this kernel lists no init/"
    lines = ["block/", "arch/arm64/kernel/", "iotoll/"]
    kbuild = kbuild[: first.start()] + "".join(f"obj-y += {line}\n" for line in lines)
    image = read("arch/arm64/boot/Makefile").replace("if_changed,objcopy", "if_changed,copy", 1)
    top = re.sub(r"^libs-y\t\t:= lib/$", "libs-y :=", read("Makefile"), flags=re.M)
    for old, new in _LEFT_OUT.items():
        assert old in top, f"the top Makefile has no {old!r}"
        top = top.replace(old, new, 1)
    arch = read("arch/arm64/Makefile").replace("prepare: vdso_prepare\n", "", 1)
    edits: dict[str, str | Link | None] = {
        "Kbuild": kbuild,
        "Makefile": top,
        "arch/arm64/Makefile": re.sub(r"^libs-y\s.*$", "", arch, flags=re.M),
        "arch/arm64/boot/Makefile": image,
        "arch/arm64/kernel/Makefile": "extra-y := vmlinux.lds\nobj-y := smccc-call.o\n",
        "block/Makefile": f"obj-y := {_BLOCK}\n",
        "scripts/link-vmlinux.sh": '#!/bin/sh\necho "vmlinux: $0" > .vmlinux.d\n'
        "cat vmlinux.o arch/arm64/kernel/vmlinux.lds > vmlinux\n",
        "block/Kconfig": read("block/Kconfig") + '\nsource "iotoll/Kconfig"\n',
        "include/case.h": "#define CASE 2\n",
        "include/gone.h": "#define GONE 2\n",
    }
    return edits | {f"iotoll/{path}": text for path, text in _FILES.items()}


def states(read: Read) -> list[State]:
    """All states; ``read`` gives a file of the small tree."""
    return [
        *_headers(read),
        *_generated(read),
        *_flags(read),
        *_options(read),
        *_objects(read),
        *_not_c(read),
    ]


def whole(read: Read) -> list[State]:
    """States of a whole kernel; ``read`` gives a file of its source."""
    turned = _changed(
        read,
        "block/blk-core.c",
        "void submit_bio_noacct(",
        "int iotoll_turned;\n\nvoid submit_bio_noacct(",
    )
    makefile = "drivers/nvme/host/Makefile"
    flags = _changed(read, makefile, "-I$(src)", "-I$(src) -fno-inline")
    listed = _changed(read, makefile, "+= pci.o", "+= pci.o iotoll-new.o")
    return [
        State("none", "the base", {}),
        State("uapi", "header beside include/uapi's", {"include/linux/blkzoned.h": _SHADOW}),
        State("source", "source edited", turned),
        State("ccflags", "ccflags-y", flags),
        State(
            "object",
            "new object",
            {**listed, "drivers/nvme/host/iotoll-new.c": _VALUE.format("new", "1")},
        ),
    ]


def _changed(read: Read, path: str, old: str, new: str) -> dict[str, str | Link | None]:
    text = read(path)
    assert old in text, f"{path} has no {old!r}"
    return {path: text.replace(old, new, 1)}


def _headers(read: Read) -> list[State]:
    return [
        State("none", "the base", {}),
        State("uapi", "header beside include/uapi's", {"include/linux/blkzoned.h": _SHADOW}),
        State("early", "header before another", {"iotoll/early/shadow.h": "#define SHADOW 2\n"}),
        State(
            "next",
            "header with #include_next",
            {"iotoll/early/next.h": "#include_next <next.h>\n#undef NEXT\n#define NEXT 2\n"},
        ),
        State("quote", "header beside the file", {"iotoll/quote.h": "#define QUOTE 2\n"}),
        State("optional", "__has_include finds it", {"iotoll/optional.h": "#define OPTIONAL 2\n"}),
        State("gone", "header removed, another found", {"include/gone.h": None}),
        State(
            "case",
            "header renamed in another case",
            {"include/case.h": None, "include/CASE.h": "#define CASE 2\n"},
        ),
        State(
            "moved",
            "header moved to an earlier folder",
            {"iotoll/late/shadow.h": None, "iotoll/early/shadow.h": "#define SHADOW 3\n"},
        ),
        State("edited", "header edited", {"iotoll/late/shadow.h": "#define SHADOW 4\n"}),
        State(
            "wrapper",
            "header in place of a generated one",
            {"arch/arm64/include/asm/div64.h": "#include <asm-generic/div64.h>\n#define DIV 2\n"},
        ),
        State(
            "link",
            "symbolic link before a header",
            {"iotoll/early/link.h": Link("../other/link.h")},
        ),
        State("links", "symbolic link to a folder", {"iotoll/early": Link("other")}),
        State(
            "unused",
            "header that nobody includes",
            {"include/linux/iotoll-unused.h": "#define UNUSED 1\n"},
            same=True,
        ),
    ]


def _generated(read: Read) -> list[State]:
    """What makefiles include, and what their recipes generate."""
    makefile = "iotoll/Makefile"
    no_rule = _changed(
        read, makefile, "$(obj)/made.h: $(obj)/gen FORCE\n\t$(call if_changed,made)\n", ""
    )
    no_rule = {
        makefile: str(no_rule[makefile]).replace("$(obj)/made.h $(obj)/table.h", "$(obj)/table.h")
    }
    return [
        State("forced", "-include by $(wildcard)", {"iotoll/forced.h": "#define FORCED 2\n"}),
        State(
            "extra",
            "makefile by -include",
            {"iotoll/extra.mk": "CFLAGS_flagged.o += -UFLAG -DFLAG=2\n"},
        ),
        State(
            "unmade",
            "generated header becomes a source",
            {**no_rule, "iotoll/late/made.h": "#define MADE 2\n"},
        ),
        State(
            "recipe",
            "recipe that make does not compare",
            _changed(read, makefile, "TABLE &", "TABLE 2&"),
        ),
        State("table", "input of a generated header", {"iotoll/table.tbl": "2\n"}),
        State("part", "part of a generated source removed", {"iotoll/parts/b.txt": None}),
        State(
            "host",
            "program that generates a header",
            {"iotoll/gen.c": _GEN.replace("MADE 1", "MADE 3")},
        ),
    ]


def _flags(read: Read) -> list[State]:
    """Flags of the compiler, from one object's to all."""
    makefile = "iotoll/Makefile"
    return [
        State(
            "ccflags",
            "ccflags-y",
            _changed(read, makefile, "-I$(src)/early ", "-I$(src)/early -DWHOLE=8 "),
        ),
        State("cflags", "CFLAGS of one object", _changed(read, makefile, "-DFLAG=1", "-DFLAG=3")),
        State(
            "order",
            "order of include folders",
            _changed(read, makefile, "-I$(src)/late", "-I$(src)/other -I$(src)/late"),
        ),
        State(
            "lib",
            "scripts/Makefile.lib",
            _changed(read, "scripts/Makefile.lib", "\n", "\nKBUILD_CPPFLAGS += -DFORCED=5\n"),
        ),
        State(
            "top",
            "top Makefile",
            _changed(read, "Makefile", "KBUILD_CPPFLAGS := ", "KBUILD_CPPFLAGS := -DWHOLE=16 "),
        ),
    ]


def _options(read: Read) -> list[State]:
    path = "iotoll/Kconfig"
    default = "config IOTOLL_{0}\n\tbool\n\tdefault n"
    return [
        State(
            "default",
            "Kconfig default",
            _changed(read, path, default.format("DEFAULT"), default.format("DEFAULT")[:-1] + "y"),
        ),
        State(
            "pasted",
            "Kconfig default of an option whose name a macro makes",
            _changed(read, path, default.format("PASTED"), default.format("PASTED")[:-1] + "y"),
        ),
        State(
            "select",
            "Kconfig select",
            _changed(
                read, path, "_SELECTS\n\tbool\n", "_SELECTS\n\tbool\n\tselect IOTOLL_SELECTED\n"
            ),
        ),
        State(
            "choice",
            "Kconfig choice",
            _changed(read, path, "default IOTOLL_FIRST", "default IOTOLL_CHOSEN"),
        ),
        State(
            "sourced",
            "Kconfig reads a file of another name",
            {
                path: read(path) + '\nsource "iotoll/settings"\n',
                "iotoll/settings": "config IOTOLL_SETTING\n\tdef_bool y\n",
            },
        ),
        State("words", "Kconfig comment", {path: read(path) + "\n# words\n"}, same=True),
    ]


def _objects(read: Read) -> list[State]:
    """Which objects there are, and of which sources."""
    makefile = "iotoll/Makefile"
    return [
        State(
            "object",
            "new object",
            {
                **_changed(read, makefile, "obj-y := ", "obj-y := new.o "),
                "iotoll/new.c": _VALUE.format("new", "1"),
            },
        ),
        State(
            "no-object",
            "object removed",
            {**_changed(read, makefile, " removed.o", ""), "iotoll/removed.c": None},
        ),
        State(
            "renamed",
            "source renamed",
            {
                **_changed(read, makefile, " removed.o", " kept.o"),
                "iotoll/removed.c": None,
                "iotoll/kept.c": _VALUE.format("removed", "1"),
            },
        ),
        State("wild", "source by $(wildcard)", {"iotoll/wild/two.c": _VALUE.format("two", "2")}),
        State("source", "source edited", {"iotoll/removed.c": _VALUE.format("removed", "2")}),
    ]


def _not_c(read: Read) -> list[State]:
    """Inputs that are not C, and a series of several kinds."""
    makefile = "iotoll/Makefile"
    return [
        State(
            "beside",
            "C file beside an assembler file",
            {"iotoll/assembly.c": _VALUE.format("sign", "2")},
        ),
        State(
            "assembly",
            "assembler file",
            _changed(read, "iotoll/assembly.S", ".long SIGN", ".long SIGN, 2"),
        ),
        State("sign", "header of an assembler file", {"iotoll/early/sign.h": "#define SIGN 2\n"}),
        State("binary", ".incbin of a file that no makefile names", {"iotoll/data.bin": "other\n"}),
        State(
            "script",
            "linker script",
            _changed(
                read, "arch/arm64/kernel/vmlinux.lds.S", "SECTIONS\n{", "SECTIONS\n{\n\tiotoll = 1;"
            ),
        ),
        State(
            "series",
            "uapi header, ccflags-y and a new object",
            {
                "include/linux/blkzoned.h": _SHADOW,
                makefile: read(makefile)
                .replace("-I$(src)/early ", "-I$(src)/early -DWHOLE=9 ")
                .replace("obj-y := ", "obj-y := new.o "),
                "iotoll/new.c": _VALUE.format("new", "2"),
            },
        ),
    ]
