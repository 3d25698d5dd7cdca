"""What shutil has, by the same names: what they mean is documented there, and here what they have beside that.

reflink
    "auto" shares extents where the filesystem can, "always" fails where it cannot, "never" copies.
durable
    The copy is on its device when the function returns.
verify
    Each copy is read again and compared with its source.
progress
    Is called with the bytes that were moved and the files that were begun, some twenty times a second, by the thread that
    called the function. An exception that it raises stops the copy.
jobs
    So many files at the same time; by default as many as make the copy faster.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from typing import Any, Optional

from . import _haul_copy

# Somebody may put those of this module in their places.
from shutil import copy2 as _copy2_of_shutil
from shutil import copytree as _copytree_of_shutil

Progress = Callable[[int, int], object]
# What shutil.copystat says nothing of when it lists, reads or sets extended attributes.
_UNLISTED = frozenset((errno.ENOTSUP, errno.ENODATA, errno.EINVAL))
_UNKEPT = _UNLISTED | {errno.EPERM} | ({errno.EACCES} if sys.version_info >= (3, 12) else set())
_Directory = tuple[Any, tuple[str, ...], list[Any], frozenset[tuple[int, int]]]
Name = Any  # str, bytes, or what os.fspath makes one of; what shutil takes, typeshed needs two pages to say.


def copyfile(
    src: Name,
    dst: Name,
    *,
    follow_symlinks: bool = True,
    reflink: str = "auto",
    durable: bool = False,
    verify: bool = False,
    progress: Optional[Progress] = None,
) -> Name:
    """Copies the contents of a file; see shutil.copyfile."""
    keywords = {"reflink": reflink, "durable": durable, "verify": verify, "progress": progress}
    _copy_contents(src, dst, follow_symlinks=follow_symlinks, **keywords)
    if durable:
        _sync_name(dst, _is_link(src, follow_symlinks))
    return dst


def _copy_contents(
    src: Name,
    dst: Name,
    *,
    follow_symlinks: bool = True,
    reflink: str = "auto",
    durable: bool = False,
    verify: bool = False,
    progress: Optional[Progress] = None,
) -> None:
    """The same; of what is durable the data is on its device then, and not yet the name."""
    if reflink not in ("auto", "always", "never"):
        raise ValueError(f"reflink is {reflink!r}: it must be 'auto', 'always' or 'never'")
    sys.audit("shutil.copyfile", src, dst)
    if _is_same(src, dst):
        raise shutil.SameFileError(f"{src!r} and {dst!r} are the same file")
    for name in (src, dst):
        if _is_fifo(name):
            raise shutil.SpecialFileError(f"`{_path(name)}` is a named pipe")
    if _is_link(src, follow_symlinks):
        os.symlink(os.readlink(src), dst)
        return
    with open(src, "rb", buffering=0) as source:
        try:
            if reflink == "always" and os.path.isfile(dst):
                _refuse_unshareable(source, dst)
            with open(dst, "wb", buffering=0) as dest:
                _copy_data(source, dest, reflink, durable, progress)
        except IsADirectoryError as error:
            if os.path.exists(dst):
                raise
            # A name with a slash at its end, where nothing is.
            raise FileNotFoundError(f"Directory does not exist: {dst}") from error
        if verify:
            _compare_data(source, dst)


def copy(src: Name, dst: Name, *, follow_symlinks: bool = True, **keywords: Any) -> Name:
    """Copies a file and its mode, also into a directory; see shutil.copy, and copyfile for the other keywords."""
    dst = _into(src, dst)
    _copy_contents(src, dst, follow_symlinks=follow_symlinks, **keywords)
    shutil.copymode(src, dst, follow_symlinks=follow_symlinks)
    if keywords.get("durable"):
        _sync_file(dst, _is_link(src, follow_symlinks))
    return dst


def copy2(src: Name, dst: Name, *, follow_symlinks: bool = True, **keywords: Any) -> Name:
    """Copies a file and its metadata, also into a directory; see shutil.copy2, and copyfile for the other keywords."""
    dst = _copy2_unsynced(src, dst, follow_symlinks=follow_symlinks, **keywords)
    if keywords.get("durable"):
        _sync_file(dst, _is_link(src, follow_symlinks))
    return dst


def _copy2_unsynced(src: Name, dst: Name, *, follow_symlinks: bool = True, **keywords: Any) -> Name:
    """Of what is durable the data is on its device then, and not yet the rest."""
    dst = _into(src, dst)
    _copy_contents(src, dst, follow_symlinks=follow_symlinks, **keywords)
    shutil.copystat(src, dst, follow_symlinks=follow_symlinks)
    return dst


def copytree(
    src: Name,
    dst: Name,
    symlinks: bool = False,
    ignore: Optional[Callable[[Any, list[Any]], Iterable[Any]]] = None,
    copy_function: Callable[[Any, Any], object] = copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    reflink: str = "auto",
    durable: bool = False,
    verify: bool = False,
    jobs: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Name:
    """Copies a tree; see shutil.copytree.

    Many files are copied at a time, so errors come in the order of the tree and files do not. All calls of ignore come before the
    first file is copied. There is one audit event, that of the tree. A copy_function other than copy2 is called by
    shutil.copytree itself, one file after another; then the keywords are an error.
    """
    keywords = (reflink, durable, verify, jobs, progress) != ("auto", False, False, None, None)
    if copy_function not in (copy2, _copy2_of_shutil):
        if keywords:
            raise ValueError("reflink, durable, verify, jobs and progress need copy2 as copy_function")
        return _copytree_of_shutil(
            src, dst, symlinks, ignore, copy_function, ignore_dangling_symlinks, dirs_exist_ok
        )
    # What shutil does there is what happens if one entry comes after the other: a symbolic link that exists is an error, and a
    # copy in its source has what was there before it.
    serial = symlinks and dirs_exist_ok and os.path.lexists(dst) or _is_below(dst, src)
    patterns = None if serial else _ignored(src, symlinks, ignore)
    if patterns is None:
        by_haul = functools.partial(_copy2_unsynced, reflink=reflink, durable=durable, verify=verify, progress=progress)
        one_by_one = _durable_copytree if durable else _copytree_of_shutil
        return one_by_one(src, dst, symlinks, ignore, by_haul, ignore_dangling_symlinks, dirs_exist_ok)
    sys.audit("shutil.copytree", src, dst)
    os.makedirs(dst, exist_ok=dirs_exist_ok)
    # What links lead to may be in the tree itself, so one thread copies where they are followed.
    follows = not symlinks and _has_links(src)
    options = {
        "archive": False,
        "follow": "always" if follows else "operands",
        "refuse_special": True,
        "update": "none",
        "delete": False,
        "exclude": patterns,
        "reflink": reflink,
        "durable": "end" if durable else "none",
        "verify": "read" if verify else "none",
        "digest": "none",
        "jobs": jobs,
        "atomic": False,
    }
    answer = _haul_copy.copy(os.fsencode(src), os.fsencode(dst), options, progress)
    failed = [error for error in answer["errors"] if not _is_tolerated(error, _path(src), _path(dst))]
    errors = [_as_shutil_says(error, _path(src), _path(dst)) for error in failed]
    if ignore_dangling_symlinks and not symlinks:
        errors = [error for error in errors if not _dangles(error[0])]
    if not symlinks and answer["symbolic_links"]:
        errors.append((src, dst, "symbolic links appeared in the source while it was copied, and were copied as such"))
    if answer["failed"] and not answer["errors"]:
        errors.append((src, dst, "not everything was copied"))
    if errors:
        raise shutil.Error(errors)
    return dst


def _durable_copytree(
    src: Name,
    dst: Name,
    symlinks: bool,
    ignore: Optional[Callable[[Any, list[Any]], Iterable[Any]]],
    copy_function: Callable[[Any, Any], Any],
    ignore_dangling_symlinks: bool,
    dirs_exist_ok: bool,
) -> Name:
    """shutil.copytree; then all filesystems are synced on which something was made, which are several where dst has links."""
    directories: list[Any] = []
    # A directory for each device.
    filesystems: dict[int, Any] = {}

    def note_directory(directory: Any, names: list[Any]) -> Iterable[Any]:
        directories.append(directory)
        return ignore(directory, names) if ignore else ()

    def note_file(one: Any, other: Any) -> None:
        made = copy_function(one, other)
        device = os.stat(made).st_dev
        if device not in filesystems:
            filesystems[device] = os.path.dirname(os.path.realpath(made))

    errors: list[Any] = []
    try:
        _copytree_of_shutil(src, dst, symlinks, note_directory, note_file, ignore_dangling_symlinks, dirs_exist_ok)
    except shutil.Error as error:
        errors = error.args[0]
    for directory in directories:
        made = os.path.join(dst, os.path.relpath(directory, src))
        try:
            filesystems.setdefault(os.stat(made).st_dev, made)
        except OSError:
            pass  # It was not made, and shutil has said so.
    for directory in filesystems.values():
        try:
            _sync_filesystem(directory)
        except OSError as error:
            errors.append((src, dst, str(error)))
    if errors:
        raise shutil.Error(errors)
    return dst


def _sync_file(dst: Name, is_link: bool) -> None:
    """Brings the attributes of a file, and its name, to their device."""
    if not is_link:
        _sync_one(dst, os.path.dirname(os.path.realpath(dst)))
    _sync_name(dst, is_link)


def _sync_name(dst: Name, is_link: bool) -> None:
    if isinstance(dst, int):
        return  # A descriptor, whose name is not known.
    if is_link:
        # It cannot be opened.
        _sync_filesystem(os.path.dirname(os.path.abspath(dst)))
    else:
        _sync_one(os.path.dirname(os.path.realpath(dst)), dst)


def _sync_one(name: Name, beside: Name) -> None:
    """Syncs a file or a directory; if that may not be read, the filesystem of what is beside it."""
    try:
        _sync(name, os.fsync)
    except PermissionError:
        _sync_filesystem(beside)


def _sync_filesystem(name: Name) -> None:
    _sync(name, _haul_copy.sync_filesystem)


def _sync(name: Name, sync: Callable[[int], None]) -> None:
    file = os.open(name, os.O_RDONLY)
    try:
        sync(file)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), name) from None
    finally:
        os.close(file)


def _path(name: Name) -> Any:
    return os.fspath(name)


def _into(src: Name, dst: Name) -> Name:
    return os.path.join(dst, os.path.basename(src)) if os.path.isdir(dst) else dst


def _is_below(name: Name, top: Name) -> bool:
    try:
        return _below(os.path.realpath(name), os.path.realpath(top)) is not None
    except ValueError:
        return False  # What lists or makes the directory says it as it does for shutil.


def _is_same(src: Name, dst: Name) -> bool:
    try:
        return os.path.samefile(src, dst)
    except OSError:
        return False


def _is_link(src: Name, follow_symlinks: bool) -> bool:
    """Whether the copy is a symbolic link."""
    return not follow_symlinks and os.path.islink(src)


def _is_fifo(name: Name) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(name).st_mode)
    except OSError:
        return False


def _refuse_unshareable(source: Any, dst: Name) -> None:
    """Fails before old contents are gone, if extents cannot be shared with what exists."""
    with open(dst, "r+b", buffering=0) as dest:
        try:
            _haul_copy.can_share(source.fileno(), dest.fileno())
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or errno.EIO), source.name, None, dest.name) from None


def _copy_data(source: Any, dest: Any, reflink: str, durable: bool, progress: Optional[Progress]) -> None:
    try:
        _haul_copy.copy_data(source.fileno(), dest.fileno(), reflink=reflink, sync=durable, progress=progress)
    except OSError as error:
        # Which of the two it was the kernel does not always say.
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), source.name, None, dest.name) from None


def _compare_data(source: Any, dst: Name) -> None:
    at = 0
    with open(dst, "rb", buffering=0) as dest:
        while True:
            ours, theirs = (os.pread(file.fileno(), 1 << 20, at) for file in (source, dest))
            shorter = min(len(ours), len(theirs))
            if ours[:shorter] != theirs[:shorter] or not shorter and ours != theirs:
                raise OSError(errno.EIO, "the copy is not like its source", source.name, None, dest.name)
            if not shorter:
                return
            at += shorter


def _ignored(src: Name, symlinks: bool, ignore: Optional[Callable[[Any, list[Any]], Iterable[Any]]]) -> Optional[list[str]]:
    """Patterns for what ignore says of each directory; None if a name cannot stand in one."""
    with os.scandir(src) as iterator:
        top = list(iterator) if ignore else []
    if not ignore:
        return []
    patterns: list[str] = []
    # A directory, the way to it from the source, what is in it, and the directories above, which a link may lead back to.
    waiting: list[_Directory] = [(_path(src), (), top, frozenset((_identity(src),)))]
    while waiting:
        directory, way, entries, above = waiting.pop()
        ignored = ignore(directory, [entry.name for entry in entries])
        below: list[_Directory] = []
        for entry in entries:
            name = os.fsdecode(entry.name)
            if entry.name in ignored:
                try:
                    name.encode()
                except UnicodeEncodeError:
                    return None
                patterns.append("".join("/" + _literally(part) for part in (*way, name)))
                continue
            try:
                if not entry.is_dir(follow_symlinks=not symlinks):
                    continue
                identity = _identity(entry)
                if identity in above:
                    continue
                with os.scandir(entry) as inner:
                    below.append((os.path.join(directory, entry.name), (*way, name), list(inner), above | {identity}))
            except OSError:
                pass  # The copy will say so.
        waiting.extend(reversed(below))
    return patterns


def _has_links(src: Name) -> bool:
    waiting = [_path(src)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            pass  # The copy will say so.
    return False


def _identity(name: Name) -> tuple[int, int]:
    status = os.stat(name)
    return (status.st_dev, status.st_ino)


def _literally(name: str) -> str:
    return re.sub(r"([\\*?\[\]{}! ])", r"\\\1", name)


def _as_shutil_says(error: Any, src: Any, dst: Any) -> tuple[Any, Any, str]:
    """An error as shutil.Error has it: source, destination, and why."""
    kind, message, number, path, _ = error
    path = path if isinstance(src, bytes) else os.fsdecode(path)
    below = _below(path, dst)
    source, dest = (path, dst) if below is None else (src + below, path)
    if below is None:
        below = _below(path, src)
        dest = dst if below is None else dst + below
    if kind == "SpecialFile":
        why = f"`{source}` is a named pipe" if _is_fifo(source) else message
    elif kind == "IntoFifo":
        why = f"`{dest}` is a named pipe"
    elif number is None:
        why = message
    else:
        # What os.utime() raises has no name.
        names = () if kind == "PreservingTimes" else (path,)
        why = str(OSError(number, os.strerror(number), *names))
    return (source, dest, why)


def _is_tolerated(error: Any, src: Any, dst: Any) -> bool:
    """Whether shutil.copystat says nothing of it."""
    kind, _, number, _, _ = error
    if kind == "ListingAttributes":
        return number in _UNLISTED
    if kind in ("GettingAttribute", "SettingAttribute", "SettingAttributes"):
        return number in _UNKEPT
    if kind not in ("ReadingAcl", "PreservingAcl") or number not in _UNKEPT:
        return False
    # To shutil an ACL is such an attribute, but a mode that could not be set is an error.
    source, dest, _ = _as_shutil_says(error, src, dst)
    try:
        return stat.S_IMODE(os.stat(source).st_mode) == stat.S_IMODE(os.stat(dest).st_mode)
    except OSError:
        return False


def _below(path: Any, top: Any) -> Any:
    """What a path has behind top, if it is that or below; None if not."""
    slash = b"/" if isinstance(top, bytes) else "/"
    top = top.rstrip(slash) or top
    rest = path[len(top) :]
    return rest if path.startswith(top) and (not rest or rest.startswith(slash)) else None


def _dangles(name: Name) -> bool:
    return os.path.islink(name) and not os.path.exists(name)
