"""Whom a found commit concerns: the merge request that brought it, else an issue."""

from __future__ import annotations

from typing import Any

from iotoll.ci.gitlab import GitLab

SHORT = 12


class Teller(GitLab):
    """As `GitLab`, for a search's answer: one note or issue for each culprit."""

    def tell(self, commit: str, body: str, issue: bool = True) -> str:
        """Write the note to each merged request that has ``commit``; returns what was done.

        Done again it edits what it wrote. Without such a request an issue is opened, if ``issue``.
        """
        mark = f"<!-- iotoll-bisect:{commit} -->\n"
        lazy = self._project.commits.get(commit, lazy=True)
        rows = self._call("find the merge request", lazy.merge_requests)
        numbers = [row["iid"] for row in rows if row["state"] == "merged"]
        for number in numbers:
            notes = self._project.mergerequests.get(number, lazy=True).notes
            self._put(notes, mark, body)
        if numbers:
            return ", ".join(f"note in !{number}" for number in numbers)
        return self._open_issue(commit, mark + body) if issue else "no merge request has it"

    def _put(self, notes: Any, mark: str, body: str) -> None:
        def ours() -> list[Any]:
            return [n for n in self._own(notes) if n.body.startswith(mark)]

        def create() -> None:
            # Tried again after an answer that got lost, the note may be there.
            if not ours():
                notes.create({"body": mark + body})

        known = ours()
        if not known:
            self._call("create the note", create)
        elif known[0].body != mark + body:
            first = known[0].id
            self._call("edit the note", lambda: notes.update(first, {"body": mark + body}))

    def _open_issue(self, commit: str, text: str) -> str:
        title = f"iotoll: {commit[:SHORT]} changed the cost of an I/O"
        issues = self._project.issues
        words = {"search": title, "in": "title", "state": "opened", "scope": "created_by_me"}

        def ours() -> list[Any]:
            return [i for i in self._rows("list issues", issues, **words) if i.title == title]

        def create() -> Any:
            return next(iter(ours()), None) or issues.create({"title": title, "description": text})

        if known := ours():
            return f"issue #{known[0].iid} is open already"
        return f"issue #{self._call('open an issue', create).iid}"
