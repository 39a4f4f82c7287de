"""progress=True: a bar of tqdm, or where that is not installed, a line on standard error."""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, Union

ProgressCall = Callable[[int, int], object]
Progress = Union[ProgressCall, bool]


def call_of(progress: Progress | None) -> ProgressCall | None:
    """The function to call for what a caller gave as progress=."""
    if progress is True:
        return _Bar()
    return progress or None


def part_of(progress: ProgressCall | None, done: int, total: int) -> ProgressCall | None:
    """Reports the progress of one part, which starts at `done` of `total` bytes, as that of the whole."""
    if progress is None:
        return None
    call = progress
    return lambda now, _: call(done + now, total)


class _Bar:
    """Calls may come from several threads, one at a time, and go on with the next file after the last byte of one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        with self._lock:
            if self._bar is None:
                self._bar = _new_bar(total)
            self._bar.total = total
            self._bar.update(done - self._bar.n)
            if done >= total:
                self._bar.close()
                self._bar = None


class _Line:
    """What a bar of tqdm is used for."""

    def __init__(self, total: int) -> None:
        self.n, self.total = 0, total

    def update(self, more: int) -> None:
        self.n += more
        sys.stderr.write("\r%3d %% of %.1f MB" % (100 * self.n // max(self.total, 1), self.total / 1e6))
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")


def _new_bar(total: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line(total)
    return tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024)
