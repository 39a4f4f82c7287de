"""lmcodec.transformers.RunCallback: checkpoints of a Trainer become steps of a run during the training."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import threading
import warnings
from collections import deque
from typing import Any, Callable, NamedTuple

import torch
import transformers

from .._codec import level_of, threads_of
from .._errors import ArgumentError, Cancelled
from .._files.options import Path
from .run import KEY_EVERY_MAX, Run

_QUEUE_NAME = "_lmc_queue"  # beside the checkpoints; the hub takes no names with "_" in front
_WAITING = re.compile(r"(checkpoint-([0-9]+))\.[0-9a-f]+")  # names in it

_logger = logging.getLogger("lmcodec.transformers")


class _Saved(NamedTuple):
    """A checkpoint that waits: its step, the folder that is added, and the Trainer's folder."""

    step: int
    folder: str
    checkpoint: str


class _Worker:
    """Calls work(item) for one item after another, in a thread that is there while there are items."""

    def __init__(self, work: Callable[[_Saved], None]) -> None:
        self._work = work
        self._items: deque[_Saved] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, item: _Saved) -> None:
        """RuntimeError: the system gives no thread. The item waits for the next call then."""
        with self._lock:
            self._items.append(item)
            if self._thread is None:
                thread = threading.Thread(target=self._work_off, name="lmcodec-run")
                thread.start()
                self._thread = thread

    def wait(self) -> None:
        """Until nothing is left."""
        thread = self._thread
        if thread is not None:
            thread.join()
        if self._items:  # there was no thread for them
            self._work_off()

    def _work_off(self) -> None:
        while True:
            with self._lock:
                if not self._items:
                    self._thread = None
                    return
                item = self._items.popleft()
            self._work(item)


class RunCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Adds each checkpoint that a Trainer saves to a run, in a background thread, in order.

        Trainer(..., callbacks=[RunCallback("run", last=5, every=1000)])

    run_dir: of the run. key_every, level, force, fsync: as for Run.add().
    last, every: what stays in the run after each step: see Run.keep(). By default all steps do.
    remove: removes a checkpoint of the Trainer once its step was read back and compared with it. The newest stays,
        for the training to resume from, and so does the best one.
    threads: of the background work; None for one per core.

    run: the Run. failures: what went wrong, as pairs of step and exception.

    A checkpoint that waits has hard links in the folder _lmc_queue beside it: the Trainer may remove it meanwhile
    (save_total_limit). Where there are no hard links, a checkpoint that is removed too early is lost to the run. The
    end of the training waits for what is left, and so does the end of the program. What a killed program leaves in
    _lmc_queue is added when the next training starts in the same output_dir.

    A failure neither ends nor disturbs the training: it is logged (`lmcodec.transformers`), and the end of the training
    warns of all failures (RuntimeWarning). Only the main process of several adds. All of them must have the callback,
    since the main one waits until each has written its part of a checkpoint.

    Raises ArgumentError: last or every is negative, key_every is not 1 to 63, there is no such level, too many threads.
    """

    def __init__(self, run_dir: Path, key_every: int = 8, last: int | None = None, every: int | None = None,
                 remove: bool = False, *, level: str = "default", force: bool = False, fsync: bool = True,
                 threads: int | None = 1) -> None:
        if not 1 <= key_every <= KEY_EVERY_MAX:
            raise ArgumentError("key_every is 1 to %d, not %d" % (KEY_EVERY_MAX, key_every))
        level_of(level)
        threads_of(threads)
        if (last or 0) < 0 or (every or 0) < 0:
            raise ArgumentError("last and every are 0 or more")
        self.run = Run(os.path.abspath(os.fsdecode(run_dir)))
        self.failures: list[tuple[int, Exception]] = []
        self._last, self._every, self._remove = last or 0, every or 0, remove
        self._settings: dict[str, Any] = {"fsync": fsync, "threads": threads, "progress": self._check_stop}
        self._add_settings: dict[str, Any] = {"key_every": key_every, "level": level, "force": force}
        self._worker = _Worker(self._add)
        self._compared: deque[_Saved] = deque()  # they may be removed
        self._newest = ""
        self._is_stopped = False

    def wait(self) -> None:
        """Waits for what is left, as the end of training does. Ctrl-C ends it within a second."""
        try:
            self._worker.wait()
        except BaseException:
            self._is_stopped = True
            raise

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Adds what an earlier training has left."""
        self.failures.clear()
        self._is_stopped = False
        if not state.is_world_process_zero:
            return
        folder = os.path.abspath(args.output_dir)
        queue = os.path.join(folder, _QUEUE_NAME)
        left = []
        for name in os.listdir(queue) if os.path.isdir(queue) else ():
            found = _WAITING.fullmatch(name)
            if found:
                left.append(_Saved(int(found[2]), os.path.join(queue, name), os.path.join(folder, found[1])))
            else:  # half a copy
                shutil.rmtree(os.path.join(queue, name), ignore_errors=True)
        for saved in sorted(left):
            self._put(saved)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Takes hold of the checkpoint that was saved."""
        if args.world_size > 1 and torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.barrier()
        if not state.is_world_process_zero:
            return
        self._newest = os.path.abspath(os.path.join(args.output_dir, "checkpoint-%d" % state.global_step))
        self._remove_compared(state)
        self._put(_Saved(state.global_step, _linked(self._newest), self._newest))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Waits for what is left, and warns of failures."""
        if not state.is_world_process_zero:
            return
        self.wait()
        self._remove_compared(state)
        if self.failures:
            steps = ", ".join(str(step) for step, _ in self.failures)
            warnings.warn("%r lacks checkpoints, or was not tidied up after them: %s (first failure: %s)"
                          % (self.run, steps, self.failures[0][1]), RuntimeWarning, stacklevel=2)

    def _put(self, saved: _Saved) -> None:
        try:
            self._worker.put(saved)
        except RuntimeError:  # on_train_end does it
            _logger.warning("no thread for checkpoint-%d: it is added later", saved.step)

    def _add(self, saved: _Saved) -> None:
        """In the worker."""
        try:
            self._check_stop()
            self.run.add(saved.folder, saved.step, **self._add_settings, **self._settings)
            if self._remove:
                self.run.compare(saved.step, saved.folder, threads=self._settings["threads"],
                                 progress=self._check_stop)
                self._compared.append(saved)
            if self._last or self._every:
                self.run.keep(self._last, self._every, **self._settings)
        except Cancelled:  # it stays in the queue
            return
        except Exception as error:
            self.failures.append((saved.step, error))
            _logger.warning("checkpoint-%d, for %r: %s", saved.step, self.run, error)
        if saved.folder != saved.checkpoint:
            shutil.rmtree(saved.folder, ignore_errors=True)
            _remove_empty(os.path.dirname(saved.folder))

    def _check_stop(self, *_: int) -> None:
        if self._is_stopped:
            raise Cancelled("the training was interrupted")

    def _remove_compared(self, state: Any) -> None:
        """In the thread of the Trainer, which removes checkpoints itself."""
        kept = [os.path.abspath(path) for path in (self._newest, state.best_model_checkpoint) if path]
        for _ in range(len(self._compared)):
            saved = self._compared.popleft()
            if os.path.abspath(saved.checkpoint) in kept:
                self._compared.append(saved)
            else:
                shutil.rmtree(saved.checkpoint, ignore_errors=True)


def _linked(checkpoint: str) -> str:
    """A folder with hard links to the files of a checkpoint; the checkpoint itself where there are no hard links."""
    queue = os.path.join(os.path.dirname(checkpoint), _QUEUE_NAME)
    place = os.path.join(queue, "%s.%s" % (os.path.basename(checkpoint), secrets.token_hex(4)))
    work = place + ".tmp"
    try:
        os.makedirs(queue, exist_ok=True)
        shutil.copytree(checkpoint, work, symlinks=True, copy_function=os.link)
        os.rename(work, place)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
        _remove_empty(queue)
        return checkpoint
    return place


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:  # others wait in it
        return
