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
        try:
            threading.Thread(target=call.work, name="lmcodec", daemon=True).start()
        except RuntimeError:  # the system gives no more threads, or Python 3.12 ends
            call.work()
        _system.wait(call.done)
    except BaseException:
        call.is_dropped = True
        cancel.value = 1
        call.wait()
        raise
    if call.error is not None:
        raise call.error
    return call.results[0]


class _Call(Generic[_Result]):
    """A call in another thread. An interrupt may come at any time, even before the thread has started."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        self.function = function
        self.done = threading.Event()
        self.has_begun = self.is_dropped = False
        self.results: list[_Result] = []
        self.error: BaseException | None = None

    def work(self) -> None:
        self.has_begun = True
        try:
            if not self.is_dropped:
                self.results.append(self.function())
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def wait(self) -> None:
        """Waits for the end of a call that was dropped. One that has not started will do nothing."""
        while self.has_begun and not self.done.is_set():
            try:
                _system.wait(self.done)
            except KeyboardInterrupt:
                pass


def share(function: Callable[[_Part], object], parts: Sequence[_Part]) -> None:
    """Calls function(part) for each part, each in a thread, the last one in this. Raises what one of them raised.

    For calls that end soon: an interrupt waits for all of them.
    """
    calls = [_Call(functools.partial(function, part)) for part in parts]
    mine = calls[-1:]
    interrupts: list[BaseException] = []
    for call in calls[:-1]:
        try:
            threading.Thread(target=call.work, name="lmcodec", daemon=True).start()
        except RuntimeError:  # the system gives no more threads, or Python 3.12 ends
            mine.append(call)
    for call in mine:
        call.work()
    for call in calls:
        while not call.done.is_set():
            try:
                _system.wait(call.done)
            except KeyboardInterrupt as interrupt:  # the threads write to memory that the caller would free
                interrupts.append(interrupt)
    for failure in (*interrupts, *(call.error for call in calls)):
        if failure is not None:
            raise failure
