"""What the user wants judged: a patch, a series, a git revision or range, or ready-made images.

`classify` turns the words of the command line into the fields of ``run.json``; `load` turns those
fields back into patch texts and revisions. Neither touches a kernel tree.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from iotoll.core.errors import UsageError
from iotoll.core.nearest import meant, near_path
from iotoll.patch import diff, mail
from iotoll.patch.mail import Mail, Stated
from iotoll.records.models import RunManifest

CandidateKind = Literal["patch", "mbox", "revision", "range", "images", "none"]

_MAX_FILES = 20_000  # of one patch; a release of the kernel changes some 14,000
_MAX_BYTES = 64 << 20  # far above any series; keeps a mistaken argument from filling memory

ACCEPT = "Iotoll-Accept"
"""Trailer by which a change names the growth that it asks to be accepted."""

MAX_TRAILERS = 50
"""Trailers of one candidate that are read; nobody needs more, and a message may be of any size."""

_TRAILER_BYTES = 500
_END_OF_MESSAGE = re.compile(r"---(?: .*)?|diff --git .*|Index: .*")


@dataclass(frozen=True)
class Patch:
    """One patch of a candidate: its subject (may be empty) and text, applied with ``-p1``."""

    subject: str
    text: bytes


@dataclass(frozen=True)
class Series:
    """The patches of a file in order, what they state of their base, and what was left out."""

    patches: tuple[Patch, ...]
    stated: Stated = field(default_factory=Stated)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidateChoice:
    """The fields of ``run.json`` that say what is compared (see `RunManifest`)."""

    kind: CandidateKind
    tree: str | None
    base: str | None
    candidate: str | None


@dataclass(frozen=True)
class Candidate:
    """A candidate ready to be applied or built.

    ``sha256`` is of the file the user gave, so that it can be compared with ``sha256sum``.
    ``base`` and ``revision`` are git revisions as the user wrote them, or image paths for kind
    ``images``; ``changed_paths`` is what the patch texts name (empty for revisions and images).
    """

    kind: CandidateKind
    patches: tuple[Patch, ...] = ()
    sha256: str | None = None
    changed_paths: tuple[str, ...] = ()
    base: str | None = None
    revision: str | None = None
    subjects: tuple[str, ...] = field(default=())
    stated: Stated = field(default_factory=Stated)
    notes: tuple[str, ...] = ()


def is_debian(tree: str) -> bool:
    """Whether a tree is Debian's kernel source: ``debian``, or ``debian-6.1`` for one version."""
    return re.fullmatch(r"debian(-\d+\.\d+)?", tree) is not None


def classify(
    candidate: str | None,
    *,
    tree: str | None = None,
    base: str | None = None,
    base_image: Path | None = None,
    candidate_image: Path | None = None,
) -> CandidateChoice:
    """Decide what the command line means; ``tree`` None means Debian's kernel source.

    Raises UsageError when the words do not fit together or a patch file cannot be used.
    """
    if base_image or candidate_image:
        return _classify_images(candidate, tree, base, base_image, candidate_image)
    source = _absolute_tree(tree)
    if candidate is None:
        return CandidateChoice("none", source, base, None)
    if Path(candidate).is_file():
        path = Path(candidate).resolve()
        kind: CandidateKind = "mbox" if len(read_patches(path)) > 1 else "patch"
        return CandidateChoice(kind, source, base, str(path))
    if is_debian(source) or Path(source).is_file():
        near = near_path(Path(candidate)) or "; for a git revision name its --tree"
        raise UsageError(f"--candidate {candidate}: no such file{near}")
    if ".." not in candidate:
        return CandidateChoice("revision", source, base, candidate)
    if base is not None:
        raise UsageError(f"--base {base}: the range {candidate} already names its base; drop one")
    _split_range(candidate)
    return CandidateChoice("range", source, None, candidate)


def named_paths(choice: CandidateChoice) -> list[str]:
    """The paths that a patch or series names; none for revisions and images."""
    if choice.kind not in ("patch", "mbox") or choice.candidate is None:
        return []
    path = Path(choice.candidate)
    return sorted({p for m in read_patches(path) for p in diff.changed_paths(m.text, path.name)})


def load(manifest: RunManifest) -> Candidate:
    """Return the candidate that ``run.json`` names; raises UsageError when its file is gone."""
    kind = manifest.candidate_kind
    named = manifest.candidate
    if kind == "none" or named is None:
        return Candidate("none", base=manifest.base)
    if kind == "images":
        return Candidate(kind, base=manifest.base, revision=named)
    if kind == "revision":
        return Candidate(kind, base=manifest.base or f"{named}^", revision=named)
    if kind == "range":
        first, last = _split_range(named)
        return Candidate(kind, base=first, revision=last)
    path = Path(named)
    series = read_series(path)
    patches = series.patches
    paths = {p for patch in patches for p in diff.changed_paths(patch.text, path.name)}
    return Candidate(
        kind,
        patches=patches,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        changed_paths=tuple(sorted(paths)),
        base=manifest.base,
        subjects=tuple(p.subject for p in patches if p.subject),
        stated=series.stated,
        notes=series.notes,
    )


def read_patches(path: Path) -> list[Patch]:
    """The patches of `read_series`."""
    return list(read_series(path).patches)


def read_series(path: Path) -> Series:
    """Read a ``.patch``, a mailbox with a series (as b4 or lore make it), either one gzipped.

    The patches are in the order to apply them. Cover letters and replies are left out, and so are
    older versions of the series. Raises UsageError for a file without a change, an incomplete
    series or refused content.
    """
    return series_of(_read(path), str(path))


def series_of(data: bytes, name: str) -> Series:
    """As `read_series`, of what a file holds; ``name`` is for messages."""
    data = _unpacked(data, name)
    series = Series((Patch("", data),))
    if mail.looks_like_mail(data):
        series = _series(mail.mails(data), name)
    changed = set().union(*(diff.changed_paths(p.text, name) for p in series.patches))
    if not changed:
        raise UsageError(f"{name}: {_why_no_change(data)}")
    for patch in series.patches:
        diff.check_whole(patch.text, f'{name}: "{patch.subject}"' if patch.subject else name)
    if len(changed) > _MAX_FILES:
        raise UsageError(
            f"{name}: changes {len(changed)} files, at most {_MAX_FILES} are read from a patch:"
            " give a git revision (--tree, --candidate)"
        )
    return series


def _series(found: list[Mail], name: str) -> Series:
    """The newest version of the series that a mailbox holds."""
    versions = sorted({m.version for m in found if m.is_patch or _lacks_diff(m)})
    newest = versions[-1] if versions else 1
    mine = [m for m in found if m.version == newest]
    for one in filter(_lacks_diff, mine):
        raise UsageError(
            f'{name}: the patch "{one.subject}" has no diff: was the mail cut? fetch it again'
        )
    covers = [m for m in mine if m.number == 0 and m.is_tagged]
    chosen = _in_order([m for m in mine if m.is_patch], name, one=len(versions) == 1)
    try:
        stated = mail.stated_base([*covers, *chosen])
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
    older = " and ".join(f"v{v}" for v in versions[:-1])
    notes = (f"{older} of the series in {Path(name).name} left out: v{newest} replaces it",)
    patches = tuple(Patch(m.subject, m.body) for m in chosen)
    return Series(patches, stated, notes if older else ())


def _lacks_diff(one: Mail) -> bool:
    """Whether a mail calls itself a patch, and is neither one nor a cover letter."""
    return one.is_tagged and not one.is_patch and one.number != 0


def _why_no_change(data: bytes) -> str:
    found = mail.mails(data) if mail.looks_like_mail(data) else []
    subjects = [m.subject for m in found]
    covers = [m for m in found if m.number == 0]
    if covers:
        return (
            f'holds the cover letter "{covers[0].subject}" and no patch of its series: give them'
            " as well (b4 am, or the thread's mbox)"
        )
    if subjects:
        return f'holds no change, only the mail "{subjects[0]}": give the mail with the patch'
    return "holds no change: give a unified diff, a git patch or an mbox"


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path}: larger than {_MAX_BYTES >> 20} MiB, so no patch: check it")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error}): check the file") from error


def _unpacked(data: bytes, name: str) -> bytes:
    """The text of a patch, which may be gzip'd."""
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(_MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{name}: cannot be read ({error}): check the file") from error
        if len(data) > _MAX_BYTES:
            raise UsageError(
                f"{name}: unpacks to more than {_MAX_BYTES >> 20} MiB, of which nothing is left"
                " out in silence: give a git revision (--tree, --candidate)"
            )
    if b"\0" in data:
        raise UsageError(f"{name}: is a binary file, no patch: give text")
    return data


def _in_order(series: list[Mail], name: str, one: bool) -> list[Mail]:
    """Sort a series by ``n/m``; file order when it has no numbers (git format-patch -N).

    A mail that came by two lists counts once. Where ``one``, a single patch of a series may stand
    alone; beside an older version it would be unclear what it replaces.
    """
    series = list({(m.message_id or number, m.body): m for number, m in enumerate(series)}.values())
    numbers = [m.number for m in series if m.number is not None]
    if len(numbers) != len(series) or not series:
        return series
    for number, times in Counter(numbers).items():
        if times > 1:
            raise UsageError(f"{name}: has patch {number} twice: keep one of them")
    total = max(m.of or 0 for m in series)
    missing = sorted(set(range(1, total + 1)) - set(numbers))
    if missing and (len(series) > 1 or not one):
        raise UsageError(f"{name}: patch {missing[0]}/{total} is missing: fetch the whole series")
    return sorted(series, key=lambda m: m.number or 0)


def _split_range(text: str) -> tuple[str, str]:
    first, last = text.split("...", 1) if "..." in text else text.split("..", 1)
    if not first or ".." in last:
        raise UsageError(f"--candidate {text}: write a range as BASE..CANDIDATE")
    return first, last or "HEAD"


def _absolute_tree(tree: str | None) -> str:
    if tree is None or is_debian(tree):
        return tree or "debian"
    if not Path(tree).exists():
        near = meant(tree, ["debian"]) or near_path(Path(tree))
        raise UsageError(f"--tree {tree}: no such folder or archive{near}")
    return str(Path(tree).resolve())


def _classify_images(
    candidate: str | None,
    tree: str | None,
    base: str | None,
    base_image: Path | None,
    candidate_image: Path | None,
) -> CandidateChoice:
    if candidate or tree or base:
        extra = "--candidate" if candidate else "--tree" if tree else "--base"
        raise UsageError(f"{extra}: ready-made images need no source: drop it or the images")
    if base_image is None:
        raise UsageError("--candidate-image needs --base-image to be compared with")
    for word, image in (("--base-image", base_image), ("--candidate-image", candidate_image)):
        if image is not None and not image.is_file():
            raise UsageError(f"{word} {image}: no such file{near_path(image)}")
    if candidate_image is None:
        return CandidateChoice("none", None, str(base_image.resolve()), None)
    return CandidateChoice(
        "images", None, str(base_image.resolve()), str(candidate_image.resolve())
    )


def trailers(messages: Iterable[str], key: str = ACCEPT) -> list[str]:
    """Return the values of the trailer ``key`` in commit messages or mail bodies, in order.

    There are `MAX_TRAILERS` at most.

    A line counts where it begins with the key, in any case of letters, above the first diff; a
    quoted or indented line does not, except for those that continue a value, as in mail headers.
    """
    found: list[str] = []
    for message in messages:
        for value in _trailers_of(message, key):
            if len(found) == MAX_TRAILERS:
                return found
            found.append(value)
    return found


def _trailers_of(message: str, key: str) -> Iterator[str]:
    start = re.compile(rf"{re.escape(key)}:[ \t]*(.*)", re.I)
    value: str | None = None
    for line in message.splitlines():
        if _END_OF_MESSAGE.fullmatch(line):
            break
        if value is not None and line[:1] in (" ", "\t") and line.strip():
            value = f"{value} {line.strip()}"
            continue
        if value is not None:
            yield value[:_TRAILER_BYTES]
        match = start.fullmatch(line.rstrip())
        value = match[1].strip() if match else None
    if value is not None:
        yield value[:_TRAILER_BYTES]
