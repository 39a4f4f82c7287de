"""Long calls, which Ctrl-C ends within a second.

A call of the library holds the thread that makes it, and Python runs signal handlers in the main thread between two of
its own instructions only. So the main thread lets another thread make the call, and waits. If the wait is interrupted,
it sets the cancel flag of the call.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Callable, Generic, Sequence, TypeVar

from . import _system

_Result = TypeVar("_Result")
_Part = TypeVar("_Part")


def new_flag() -> ctypes.c_int:
    """A cancel flag: 0. The library reads it by atomic loads."""
    return ctypes.c_int(0)


def run(function: Callable[[], _Result], cancel: ctypes.c_int) -> _Result:
    """Calls function() and returns its result. KeyboardInterrupt ends it, unless no thread could be started for it.

    cancel: the flag that ends the call soon. The end is waited for, so that memory and files in use can be freed
    afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    call = _Call(function)
    try:
        if not call.start():
            return function()
        _system.wait(call.done)
    except BaseException:
        call.is_dropped = True
        cancel.value = 1
        call.wait()
        call.error = None
        raise
    if call.error is not None:
        raise call.taken_error()
    return call.results[0]


class _Call(Generic[_Result]):
    """A call in another thread. An interrupt may come at any time, even before the thread has started."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        self.function = function
        self.done = threading.Event()
        self.has_begun = self.is_dropped = False
        self.results: list[_Result] = []
        self.error: BaseException | None = None

    def start(self) -> bool:
        """Starts a thread for the call. False if the system gives no more threads, or Python 3.12 ends."""
        try:
            threading.Thread(target=self.work, name="lmcodec", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def work(self) -> None:
        try:
            self.has_begun = True
            if not self.is_dropped:
                self.results.append(self.function())
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def taken_error(self) -> BaseException:
        """What the call has raised. Its frames hold the call, which holds it no longer: a cycle would keep them."""
        error, self.error = self.error, None
        assert error is not None
        return error

    def wait(self) -> list[BaseException]:
        """Waits for the end of a call in another thread, and returns what signal handlers have raised meanwhile. A call
        that was dropped before it has begun will do nothing."""
        raised: list[BaseException] = []
        while (self.has_begun or not self.is_dropped) and not self.done.is_set():
            try:
                _system.wait(self.done)
            except BaseException as interrupt:  # the thread writes to memory that the caller would free
                raised.append(interrupt)
        return raised


def share(function: Callable[[_Part], object], parts: Sequence[_Part]) -> None:
    """Calls function(part) for each part, each in a thread, the last one in this. Raises what one of them raised.

    For calls that end soon: an interrupt waits for all that have begun.
    """
    calls = [_Call(functools.partial(function, part)) for part in parts]
    mine = calls[-1:]
    raised: list[BaseException] = []
    try:
        mine += [call for call in calls[:-1] if not call.start()]
        for call in mine:
            call.work()
    except BaseException as interrupt:
        raised.append(interrupt)
        for call in calls:
            call.is_dropped = True
    for call in calls:
        if call not in mine:
            raised += call.wait()
    raised += [call.taken_error() for call in calls if call.error is not None]
    if raised:
        raise _first_of(raised)


def _first_of(raised: list[BaseException]) -> BaseException:
    """The first exception. The list, which frames of it hold, is empty then."""
    first = raised[0]
    raised.clear()
    return first
