"""Copies that keep all that haul can keep, and say what was done."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from . import _haul_copy
from ._haul_copy import Cancel

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Problem:
    """An error or a warning."""

    kind: str
    """The operation, a word for programs."""
    message: str
    errno: Optional[int]
    """What the kernel said, if it was asked."""
    path: str
    other: str
    """A second path, or nothing."""


@dataclass(frozen=True)
class Result:
    """What was done."""

    copied: int
    """Regular files whose data was moved."""
    directories: int
    symbolic_links: int
    hard_links: int
    special: int
    """FIFOs, sockets and device nodes."""
    skipped: int
    """What exists and stays."""
    excluded: int
    deleted: int
    bytes: int
    """All bytes of the copies, shared ones and holes included."""
    shared: int
    """Bytes that copies share with their sources."""
    holes: int
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    damaged: tuple[str, ...]
    """Overwritten files that are neither the old nor the new ones."""
    digests: Mapping[str, str]
    """By the path of each copy, in hexadecimal digits."""


class Error(shutil.Error):
    """Something was not copied; the rest is. What shutil.Error has as its argument is the list of messages with paths."""

    def __init__(self, result: Result) -> None:
        super().__init__([(problem.path, problem.other, problem.message) for problem in result.errors])
        self.result = result


class Cancelled(Error):
    """The copy was stopped by its Cancel."""


@dataclass(frozen=True)
class Difference:
    """How a copy differs from its source."""

    source: str
    copy: str
    what: str
    """In what they differ: "contents", "size", "mode", "only in copy" and so on."""
    how: str
    """Both values where there are two."""


def replicate(
    source: Any,
    dest: Any,
    *,
    follow: str = "never",
    update: str = "none",
    delete: bool = False,
    exclude: Iterable[str] = (),
    reflink: str = "auto",
    durable: str = "none",
    verify: str = "none",
    digest: str = "none",
    jobs: Optional[int] = None,
    atomic: bool = False,
    progress: Optional[Progress] = None,
    cancel: Optional[Cancel] = None,
) -> Result:
    """Copies a file or a tree as `haul -aT source dest` does: owners, modes, times, links, ACLs and attributes are kept.

    follow: symbolic links of the source that are followed: "never", "operands", "always".
    update: existing files that stay: "none", "older" (which are not older than their sources), "changed" (which have the size
        and the time of their sources), "content" (which have their contents).
    delete: what the source does not have is removed from dest.
    exclude: patterns of gitignore(5) for what is left out.
    durable: "none"; "end", all is on its device at the end; "file", each file is before it gets its name.
    verify: "none"; "read" reads each copy again; "device" reads it from its device.
    digest: "none", "blake3", "xxh3", "sha256" or "md5" of each file, for Result.digests.
    atomic: each name stands for the old file or for the whole new one at any moment.
    reflink, jobs and progress are those of copytree. cancel stops the copy from another thread.

    Raises Error, with what was done all the same, or Cancelled.
    """
    if isinstance(exclude, (str, bytes)):
        # Each of its characters would be a pattern.
        raise TypeError(f"exclude is {exclude!r}: it must be patterns, as in [{exclude!r}]")
    options = {
        "archive": True,
        "follow": follow,
        "refuse_special": False,
        "update": update,
        "delete": delete,
        "exclude": list(exclude),
        "reflink": reflink,
        "durable": durable,
        "verify": verify,
        "digest": digest,
        "jobs": jobs,
        "atomic": atomic,
    }
    answer = _haul_copy.copy(os.fsencode(source), os.fsencode(dest), options, progress, cancel)
    result = _result(answer)
    if answer["cancelled"]:
        raise Cancelled(result)
    if answer["failed"]:
        raise Error(result)
    return result


def mirror(source: Any, dest: Any, **keywords: Any) -> Result:
    """Makes dest like source: replicate with update="changed" and delete=True, as `haul --mirror` does."""
    return replicate(source, dest, **{"update": "changed", "delete": True, **keywords})


def compare(source: Any, copy: Any) -> list[Difference]:
    """How a copy differs from its source in all that replicate keeps; nothing is written. OSError if something cannot be read."""
    found, errors = _haul_copy.compare(os.fsencode(source), os.fsencode(copy))
    if errors:
        raise OSError("; ".join(errors))
    return [Difference(os.fsdecode(one), os.fsdecode(other), what, how) for one, other, what, how in found]


class Running:
    """A copy that was started. It is an asynchronous iterator of (bytes, files) while it runs, and awaiting it gives its Result."""

    def __init__(self, source: Any, dest: Any, keywords: dict[str, Any]) -> None:
        self._stop = Cancel()
        self._steps: asyncio.Queue[Optional[tuple[int, int]]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def progress(moved: int, files: int) -> None:
            loop.call_soon_threadsafe(self._steps.put_nowait, (moved, files))

        def work() -> Result:
            try:
                return replicate(source, dest, progress=progress, cancel=self._stop, **keywords)
            finally:
                loop.call_soon_threadsafe(self._steps.put_nowait, None)

        self._work = loop.run_in_executor(None, work)

    def cancel(self) -> None:
        """Stops it; awaiting it raises Cancelled then."""
        self._stop.cancel()

    def __aiter__(self) -> AsyncIterator[tuple[int, int]]:
        return self

    async def __anext__(self) -> tuple[int, int]:
        step = await self._steps.get()
        if step is None:
            self._steps.put_nowait(None)
            raise StopAsyncIteration
        return step

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    async def _wait(self) -> Result:
        try:
            return await asyncio.shield(self._work)
        except asyncio.CancelledError:
            self._stop.cancel()
            raise


def start(source: Any, dest: Any, **keywords: Any) -> Running:
    """Starts replicate in a thread of the running event loop, with these keywords."""
    return Running(source, dest, keywords)


def _result(answer: dict[str, Any]) -> Result:
    def problems(name: str) -> tuple[Problem, ...]:
        return tuple(_problem(*parts) for parts in answer[name])

    return Result(
        copied=answer["files"],
        directories=answer["directories"],
        symbolic_links=answer["symbolic_links"],
        hard_links=answer["hard_links"],
        special=answer["special"],
        skipped=answer["skipped"],
        excluded=answer["excluded"],
        deleted=answer["deleted"],
        bytes=answer["bytes"],
        shared=answer["bytes_shared"],
        holes=answer["bytes_of_holes"],
        errors=problems("errors"),
        warnings=problems("warnings"),
        damaged=tuple(os.fsdecode(path) for path in answer["damaged"]),
        digests={os.fsdecode(path): digest for path, digest in answer["digests"].items()},
    )


def _problem(kind: str, message: str, errno: Optional[int], path: bytes, other: bytes) -> Problem:
    return Problem(kind, message, errno, os.fsdecode(path), os.fsdecode(other))
