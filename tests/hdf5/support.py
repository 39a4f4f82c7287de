"""What the cases share: running programs with the plugin, in the environments with their versions of HDF5."""
import glob
import os
import shutil
import signal
import subprocess

CASES = []
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
BEDS = ("110", "114", "200", "220")
TIMEOUT = 120  # seconds; what takes as long hangs


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def case(function):
    """Registers a test: function(world, directory)."""
    module = function.__module__.replace("cases_", "")
    CASES.append((module + "/" + function.__name__, function))
    return function


def cases_for(*values):
    """Registers a test function(world, directory, value) once for each value."""
    def register(function):
        module = function.__module__.replace("cases_", "")
        for value in values:
            CASES.append(("%s/%s-%s" % (module, function.__name__, value),
                          lambda world, directory, value=value: function(world, directory, value)))
        return function
    return register


def check(condition, text):
    if not condition:
        raise Failure(text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def need_command(name, package):
    if shutil.which(name) is None:
        raise Skip("needs %s (Debian: %s)" % (name, package))


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
    """The plugin and the environments."""

    def __init__(self, build, venvs):
        self.plugin = os.path.join(os.path.abspath(build), "filter", "plugin", "libh5lmc.so")
        self.venvs = os.path.abspath(venvs)
        self.c_programs = {}
        if not os.path.exists(self.plugin):
            raise SystemExit("no plugin: " + self.plugin)

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
            raise Failure("%s: hangs\n%s%s" % (command, stdout.decode(errors="replace"),
                                               stderr.decode(errors="replace")))
        return Result(command, process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    def python(self, bed):
        path = os.path.join(self.venvs, "venv-h5-" + bed, "bin", "python")
        check(os.path.exists(path), "no environment " + path)
        return path

    def program(self, bed, name, *arguments, **options):
        """Runs programs/NAME.py with the Python of a bed; it must succeed."""
        return self.run(self.python(bed), os.path.join(PROGRAMS, name + ".py"), *arguments, **options).expect(0)

    def package(self, bed, name):
        """The folder of a package within a bed."""
        found = glob.glob(os.path.join(self.venvs, "venv-h5-" + bed, "lib", "python3*", "site-packages", name))
        check(len(found) == 1, "no %s in bed %s" % (name, bed))
        return found[0]
