from collections.abc import Callable, Mapping
from typing import Any, Optional

__version__: str

class Cancel:
    """Stops a copy from another thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """Stops it after the piece of data that is being moved."""
    @property
    def cancelled(self) -> bool:
        """Whether somebody has asked for that."""

def can_share(source: int, dest: int) -> None: ...
def sync_filesystem(file: int) -> None: ...
def copy_data(
    source: int,
    dest: int,
    *,
    reflink: str = "auto",
    sync: bool = False,
    progress: Optional[Callable[[int, int], object]] = None,
) -> tuple[int, int, int, int]: ...
def copy(
    source: bytes,
    dest: bytes,
    options: Mapping[str, Any],
    progress: Optional[Callable[[int, int], object]] = None,
    cancel: Optional[Cancel] = None,
) -> dict[str, Any]: ...
def compare(source: bytes, copy: bytes) -> tuple[list[tuple[bytes, bytes, str, str]], list[str]]: ...
