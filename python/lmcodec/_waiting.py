"""Long calls, which Ctrl-C ends within a second.

A call of the library holds the thread that makes it, and Python runs signal handlers in the main thread between two of
its own instructions only. So the main thread lets another thread make the call, and waits. If the wait is interrupted,
it sets the cancel flag of the call.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Callable, TypeVar

_Result = TypeVar("_Result")


def new_flag() -> ctypes.c_int:
    """A cancel flag: 0. The library reads it by atomic loads."""
    return ctypes.c_int(0)


def run(function: Callable[[], _Result], cancel: ctypes.c_int | None = None) -> _Result:
    """Calls function() and returns its result. KeyboardInterrupt ends it.

    cancel: the flag that ends the call soon. It is waited for, so that memory and files that it uses can be freed
    afterwards. Without a flag the call goes on in its thread, which keeps what it uses, and its result is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    done = threading.Event()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name="lmcodec", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        if cancel is not None:
            cancel.value = 1
            _wait_for(done)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _wait_for(done: threading.Event) -> None:
    while not done.is_set():
        try:
            done.wait()
        except KeyboardInterrupt:
            pass
