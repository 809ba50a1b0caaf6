"""Writing files so that a reader sees the old one or the new one, never a half of either."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from untwist.types import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path to write to; on success it takes the place of `path`, on failure it goes.

    The new file is on disk before it replaces the old one, so that neither a killed process nor a
    lost power supply leaves a damaged file. A full or forbidden disk is the user's to mend, and is
    said in one sentence.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        _to_disk(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        _to_disk(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> InputError:
    """Returns the sentence for a failed write: what could not be written, why, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "free some space and resume; what was there before is untouched"
    else:
        remedy = "choose a directory that you may write to"
    return InputError(f"cannot write {path}: {error.strerror or error}; {remedy}")


def _to_disk(path: Path) -> None:
    """Waits until a file's content, or a directory's list of files, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
