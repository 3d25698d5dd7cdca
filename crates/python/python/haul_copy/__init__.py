"""Copies files and trees by haul, as shutil does and quicker.

copy, copy2, copyfile and copytree take what those of shutil take, return what they return, and raise what they raise; what
they have beside that are keywords. replicate and mirror make copies that keep all that haul can keep, and say what was done.

    >>> import haul_copy
    >>> haul_copy.copytree("photos", "backup")
    'backup'
    >>> haul_copy.replicate("photos", "again").copied
    2
"""

from shutil import SameFileError, SpecialFileError, copymode, copystat, ignore_patterns

from ._haul_copy import Cancel, __version__
from ._replicate import (
    Cancelled,
    Difference,
    Error,
    Problem,
    Result,
    Running,
    compare,
    mirror,
    replicate,
    start,
)
from ._shutil import copy, copy2, copyfile, copytree

__all__ = [
    "Cancel",
    "Cancelled",
    "Difference",
    "Error",
    "Problem",
    "Result",
    "Running",
    "SameFileError",
    "SpecialFileError",
    "__version__",
    "compare",
    "copy",
    "copy2",
    "copyfile",
    "copymode",
    "copystat",
    "copytree",
    "ignore_patterns",
    "mirror",
    "replicate",
    "start",
]
