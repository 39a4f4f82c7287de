"""The command lmc-st: the native program takes the place of this process."""

from __future__ import annotations

import os
import sys

from lmcodec import _library, _system


def command() -> str | None:
    """Path of lmc-st: in a build, or where pip puts the programs of a package; None if there is none."""
    import sysconfig

    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for scheme in ("%s_user" % os.name, "osx_framework_user" if sys.platform == "darwin" else ""):
        if scheme in sysconfig.get_scheme_names():
            folders.append(sysconfig.get_path("scripts", scheme))
    # pip install --target puts programs beside the packages
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    name = _library.program_name("lmc-st")
    paths = [os.path.join(folder, name) for folder in folders]
    return _library.find(name) or next(filter(os.path.isfile, paths), None)


def main() -> None:
    """Runs lmc-st with the arguments of this process."""
    program = command()
    if program is None:
        sys.exit("lmcodec: the command lmc-st is not there")
    _system.become(program, sys.argv[1:])


if __name__ == "__main__":
    main()
