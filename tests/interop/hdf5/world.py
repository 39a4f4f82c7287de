"""world.py - running programs with the plugin, in the environments with their versions of HDF5."""
import glob
import os
import shutil
import signal
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
DEBIAN_PYTHON = "/usr/bin/python3"
BEDS = ("110", "114", "200", "220")
TIMEOUT = 120  # seconds; what takes as long hangs


def check(condition, text):
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def need_command(name, package):
    if shutil.which(name) is None:
        pytest.skip("needs %s (Debian: %s)" % (name, package))


class Result:
    def __init__(self, command, status, stdout, stderr):
        self.command = command
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def expect(self, status=0, *fragments):
        """Checks exit status and that the output holds fragments."""
        check(self.status == status, "%s: exit status %s instead of %s\n%s%s" % (
            self.command, self.status, status, self.stdout, self.stderr))
        for fragment in fragments:
            check(fragment in self.stdout + self.stderr, "%s: no %r in\n%s%s" % (
                self.command, fragment, self.stdout, self.stderr))
        return self


class World:
    """The plugin and the environments. Without a folder of environments there is that of Debian's h5py alone, and tests
    that need others are left out."""

    def __init__(self, build, venvs):
        self.build = os.path.abspath(build)
        self.plugin = os.path.join(self.build, "filter", "plugin", "libh5lmc.so")
        self.venvs = os.path.abspath(venvs) if venvs else None
        self.beds = BEDS if venvs else BEDS[:1]
        check(os.path.exists(self.plugin), "no plugin: " + self.plugin)

    def environment(self, **more):
        """That of this process with the plugin's directory and no other setting of LMC's; None takes one out."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("LMC_NUM", "LMC_H5", "HDF5_"))}
        environment["HDF5_PLUGIN_PATH"] = os.path.dirname(self.plugin)
        environment["PYTHONFAULTHANDLER"] = "1"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment.update(more)
        return {name: value for name, value in environment.items() if value is not None}

    def run(self, *command, timeout=TIMEOUT, cwd=None, **environment):
        """Runs a command; what it leaves running when its time is up is killed with it."""
        command = [str(word) for word in command]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=cwd,
                                   stderr=subprocess.PIPE, env=self.environment(**environment),
                                   start_new_session=True)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise AssertionError("%s: hangs\n%s%s" % (command, stdout.decode(errors="replace"),
                                                      stderr.decode(errors="replace")))
        return Result(command, process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    def venv(self, name):
        if self.venvs is None:
            pytest.skip("left out: needs environments of scripts/setup.sh (--venvs)")
        return os.path.join(self.venvs, name)

    def python(self, bed):
        if self.venvs is None and bed == "110":
            return DEBIAN_PYTHON
        path = os.path.join(self.venv("venv-h5-" + bed), "bin", "python")
        check(os.path.exists(path), "no environment " + path)
        return path

    def program(self, bed, name, *arguments, **options):
        """Runs programs/NAME.py with the Python of a bed; it must succeed."""
        return self.run(self.python(bed), os.path.join(PROGRAMS, name + ".py"), *arguments, **options).expect(0)

    def package(self, bed, name):
        """The folder of a package within a bed."""
        found = glob.glob(os.path.join(self.venv("venv-h5-" + bed), "lib", "python3*", "site-packages", name))
        check(len(found) == 1, "no %s in bed %s" % (name, bed))
        return found[0]
