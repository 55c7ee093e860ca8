"""What worker processes of the tests are asked to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def killed_once(mark: str, number: int) -> int:
    """Kills its process unless it, or another one, has done so before."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return number
    os.kill(os.getpid(), signal.SIGKILL)
    return -1


def refused(text: str) -> None:
    raise FadiffError(text)
