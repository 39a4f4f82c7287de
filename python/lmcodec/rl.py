"""Versions of weights that a trainer publishes and inference engines pull, stored as what has changed since the last.

    from lmcodec import rl

    rl.publish("updates/weight_v000007", "updates/lmc")        # the trainer, after each update
    rl.pull("updates/lmc", "rollout-ckpt", 7)                  # each host: a plain checkpoint directory

The root of the versions is a run (lmcodec.Run, docs/run.md) whose steps are the versions: `lmc-st run ls updates/lmc`.
post_write_hook() and pre_read_hook() do the same inside slime and SGLang. docs/python_frameworks.md has their options.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sys
from typing import Any, Sequence

from ._errors import ArgumentError, DataError, LMCError, StepNotFound, loads_untrusted
from ._files.convert import restore
from ._files.options import Path, Progress
from ._runs.run import Run, Step
from ._serving.local_checkpoint import LocalCheckpoint

__all__ = ["post_write_hook", "pre_read_hook", "publish", "pull", "versions"]

_NAME = re.compile(r"weight_v([0-9]{6,})\Z")  # of a version's directory, in slime, miles and SGLang
_MARK = "lmc-rl.json"  # in the root: which training its versions are of
_ROOT, _PREVIOUS = "lmc", ".lmc-previous"  # beside the versions of the hooks: the root; what was published last
_INDEX = "model.safetensors.index.json"


def versions(root: Path) -> list[Step]:
    """The versions in a root, by rising number: `step` is the version, `base` the one that it needs. An empty
    list if the directory does not exist. Raises ArgumentError (a URL), and as Run.steps() does."""
    return Run(_local(root)).steps()


def publish(checkpoint_dir: Path, root: Path, version: int | None = None, *, key_every: int | None = None,
            last: int | None = None, previous: Path | None = None, level: str = "default", fsync: bool = True,
            threads: int | None = None, progress: Progress | None = None) -> Step:
    """Adds a plain checkpoint directory to a root, which the first call makes. The directory is not changed.

    version: by default that of the directory's name, as weight_v000007. It must be above those in the root. Once this
        returns, the version is in the root; a call that fails or is killed leaves the root as it was.
    key_every: the most versions from one that needs no other to the next, 1 to 63; the root remembers it, 8 at first.
    last: removes versions that are neither among the newest `last` ones nor needed by these. None removes nothing.
    previous: the plain directory of the newest version in the root, if it is still there. It is read instead of the
        root, which takes less time the more versions that one needs; ignored if files have other sizes or times.
    level: "default", "fast" or "max". threads: None for one per core. progress(done bytes, all bytes).

    The same version again is a success if the content is equal. Raises FileExistsError (other content), ArgumentError
    (no version in the name, one below the newest, a directory of deltas of slime or miles, a URL), NotADirectoryError,
    and as Run.add() does.
    """
    if last is not None and last < 1:
        raise ArgumentError("last is 1 or more, not %d" % last)
    folder, shown = os.fsdecode(checkpoint_dir), _local(root)
    run = Run(root)
    number = _version_of(folder) if version is None else version
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, "not a checkpoint directory", folder)
    _refuse_deltas(folder)
    newest = run.latest
    if newest is not None and number < newest.step and number not in run:
        raise ArgumentError("%s: version %d cannot follow version %d, the newest in %s; another training needs another "
                            "root" % (folder, number, newest.step, shown))
    try:
        added = run.add(folder, number, key_every=key_every, base_snapshot=previous, level=level, fsync=fsync,
                        threads=threads, progress=progress)
    except FileExistsError as error:
        raise FileExistsError(error.errno, "version %d is in %s with other content; another training needs another root"
                              % (number, shown), folder) from error
    if _training_of(shown) is None:
        _mark(shown)
    if last is not None:
        _keep_last(run, last, fsync)
    return added


def pull(root: Path, local_dir: Path, target_version: int | None = None, *, force: bool = False, fsync: bool = True,
         threads: int | None = None, progress: Progress | None = None) -> int:
    """Makes a local directory the plain checkpoint of a version, and returns its number.

    local_dir: its content is replaced as a whole, once all of the version is there and verified. Until then, and if
        the call fails or is killed, it holds what it held. It needs room for two checkpoints while the call runs. If it
        has the version that the wanted one is based on, only the changes are read from the root.
    target_version: by default the newest. If it is there already, nothing is done.
    force: goes back to an earlier version, and replaces a directory of another training, or one that is not a local
        checkpoint. False: these are refused.

    Several threads and processes may pull to one directory: they wait for each other. Raises StepNotFound (the version,
    or one that it needs, is missing), ArgumentError (what `force` allows, a URL), and as restore() does.
    """
    run, shown, local = Run(root), _local(root), LocalCheckpoint(_local(local_dir))
    steps = {step.step: step for step in run.steps()}
    if not steps:
        raise StepNotFound("%s: there is no version" % shown)
    target = max(steps) if target_version is None else target_version
    training = _training_of(shown)
    with local.held():
        if not force:
            _check_local(local, target, training, shown)
        if local.version == target and local.training == training:
            return target
        if target not in steps:
            raise StepNotFound("%s: version %d is missing; there are %s" % (shown, target, _shown(sorted(steps))))
        try:
            _stage(run, steps, target, local, training, fsync=fsync, threads=threads, progress=progress)
            local.replace(target, training, fsync)
        except BaseException:
            local.clear()
            raise
    return target


# ---- hooks ----

def post_write_hook(args: Any, version_dir: str, rollout_engines: Sequence[Any]) -> None:
    """For slime: `--custom-update-weight-post-write-path lmcodec.rl.post_write_hook`. Publishes what it has written.

    slime calls this on every rank of the trainer once all have written a version, and before the engines are told. Rank
    0 does the work. LMCODEC_RL_ROOT names the root, by default `lmc` beside the version. LMCODEC_RL_KEY_EVERY,
    LMCODEC_RL_LAST and LMCODEC_RL_LEVEL are arguments of publish(). The files of the version published last keep a
    second name in `.lmc-previous` beside it. args and rollout_engines are not used. Raises as publish() does.
    """
    if _rank() != 0:
        return
    folder = os.path.abspath(version_dir)
    parent = os.path.dirname(folder)
    number, previous = _version_of(folder), os.path.join(parent, _PREVIOUS)
    publish(folder, _root_of(parent), number, key_every=_number("LMCODEC_RL_KEY_EVERY"),
            last=_number("LMCODEC_RL_LAST"), previous=previous, level=os.environ.get("LMCODEC_RL_LEVEL", "default"))
    _link(folder, previous)


def pre_read_hook(source_dir: str, target_version: int) -> None:
    """For SGLang: `--custom-pull-weights-pre-read-hook lmcodec.rl.pre_read_hook`. Pulls the version that is wanted.

    SGLang calls this in each process of an engine that has to pull, before the process reads source_dir. It then finds
    the version in place, and copies nothing. LMCODEC_RL_LOCAL_DIR must be the local checkpoint directory of the
    trainer's request. LMCODEC_RL_ROOT names the root, by default `lmc` in source_dir. LMCODEC_RL_FORCE=1 is `force`.
    Raises as pull() does.
    """
    local_dir = os.environ.get("LMCODEC_RL_LOCAL_DIR")
    if not local_dir:
        raise ArgumentError("LMCODEC_RL_LOCAL_DIR is not set: the directory of --update-weight-local-checkpoint-dir")
    pull(_root_of(source_dir), local_dir, target_version, force=os.environ.get("LMCODEC_RL_FORCE") == "1")


def _root_of(source_dir: str) -> str:
    return os.environ.get("LMCODEC_RL_ROOT") or os.path.join(source_dir, _ROOT)


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentError("%s is a number above 0, not %r" % (variable, text))
    return int(text)


def _rank() -> int:
    """Of this process, in torch.distributed if the program uses that."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def _link(folder: str, link_dir: str) -> None:
    """The files of a directory get second names. There are none where the file system has no hard links."""
    shutil.rmtree(link_dir, ignore_errors=True)
    try:
        shutil.copytree(folder, link_dir, copy_function=os.link)
    except OSError:  # shutil.Error, too
        shutil.rmtree(link_dir, ignore_errors=True)


# ---- the root ----

def _local(directory: Path) -> str:
    """The name of a directory. Raises ArgumentError for a URL."""
    shown = os.fsdecode(directory)
    if "://" in shown and not os.path.exists(shown):
        from ._remote.stores import hide_secrets

        raise ArgumentError("%s: versions and checkpoints are in local or shared directories, not at URLs"
                            % hide_secrets(shown))
    return shown


def _version_of(folder: str) -> int:
    found = _NAME.search(os.path.basename(os.path.abspath(folder)))
    if found is None:
        raise ArgumentError("%s: its name is not that of a version, as weight_v000007" % folder)
    return int(found[1])


def _refuse_deltas(folder: str) -> None:
    try:
        with open(os.path.join(folder, _INDEX), encoding="utf-8") as file:
            index = json.load(file)
    except (OSError, ValueError, RecursionError):  # what is wrong with it, Run.add() says
        return
    metadata = index.get("metadata") if isinstance(index, dict) else None
    if isinstance(metadata, dict) and "delta_encoding" in metadata:
        raise ArgumentError("%s: holds deltas (%s), not a whole checkpoint: use --update-weight-mode full"
                            % (folder, metadata["delta_encoding"]))


def _training_of(root: str) -> str | None:
    """Which training the versions are of; None: the root does not tell."""
    path = os.path.join(root, _MARK)
    try:
        with open(path, "rb") as file:
            mark = loads_untrusted(file.read(1 << 16), path)
    except FileNotFoundError:
        return None
    training = mark.get("training") if isinstance(mark, dict) else None
    if not isinstance(training, str):
        raise DataError("%s: is not the mark of versions of weights" % path)
    return training


def _mark(root: str) -> None:
    path = os.path.join(root, ".lmc-mark")  # a name that the next change of the run removes
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": "lmc-rl", "training": secrets.token_hex(16)}, file)
    os.replace(path, os.path.join(root, _MARK))


def _keep_last(run: Run, last: int, fsync: bool) -> None:
    """Removes the versions before the one without a base that the oldest of the newest `last` ones needs."""
    steps = run.steps()
    keys = [step.step for step in steps if step.chain == 0 and step.step <= steps[-last:][0].step]
    gone = [step.step for step in steps if keys and step.step < keys[-1]]
    if gone:
        run.drop(gone, fsync=fsync)


# ---- pulling ----

def _check_local(local: LocalCheckpoint, target: int, training: str | None, root: str) -> None:
    """Raises ArgumentError if only `force` may replace what is there."""
    if not local.is_replaceable:
        raise ArgumentError("%s: has files, and is not a local checkpoint; force replaces it" % local.path)
    if local.version is None:
        return
    if local.training is not None and training is not None and local.training != training:
        raise ArgumentError("%s: holds version %d of another training than %s; force replaces it"
                            % (local.path, local.version, root))
    if local.version > target:
        raise ArgumentError("%s: holds version %d, and version %d is wanted; force goes back"
                            % (local.path, local.version, target))


def _stage(run: Run, steps: dict[int, Step], target: int, local: LocalCheckpoint, training: str | None, *, fsync: bool,
           **options: Any) -> None:
    """Writes a version to local.stage: on the local checkpoint if that is its base, else with all that it needs."""
    step = steps[target]
    if not step.is_directory:
        raise ArgumentError("%s: version %d is a file, not a checkpoint directory" % (run.path(step), target))
    if step.base is not None and step.base == local.version and local.training == training:
        try:
            restore(run.path(target), local.stage, base=local.path, fsync=fsync, **options)
            return _check_files(local.stage, step)
        except (LMCError, FileNotFoundError):  # changed since it was pulled; or a version was removed meanwhile
            local.clear()
    if step.chain is None:
        raise _missing(run, steps, step)
    run.restore(target, local.stage, fsync=fsync, **options)
    _check_files(local.stage, step)


def _check_files(folder: str, step: Step) -> None:
    """Raises DataError if files are missing, or have been cut: those without tensors have no checksums."""
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]
    if (len(sizes), sum(sizes)) != (step.files, step.nbytes):
        raise DataError("version %d: %d files of %d bytes were published, and %d of %d bytes are there"
                        % (step.step, step.files, step.nbytes, len(sizes), sum(sizes)))


def _missing(run: Run, steps: dict[int, Step], step: Step) -> StepNotFound:
    """What to raise if a version is missing that this one needs."""
    needs = step
    while needs.base in steps:
        needs = steps[needs.base]
    name = "a version" if needs.base is None else "version %d" % needs.base
    return StepNotFound("%s: version %d needs %s, which is missing"
                        % (os.path.dirname(run.path(step)), step.step, name))


def _shown(numbers: Sequence[int]) -> str:
    """Numbers for a message: "1 to 3, 5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join(" to ".join(map(str, part)) for part in parts)
