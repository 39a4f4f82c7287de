"""The command lmc-st: this process becomes the native program."""

from __future__ import annotations

import os
import sys

from lmcodec import _library


def command() -> str | None:
    """Path of lmc-st: in a build, or where pip puts the programs of a package; None if there is none."""
    import sysconfig

    user_scheme = "%s_user" % os.name
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    if user_scheme in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", user_scheme))
    # pip install --target puts programs beside the packages
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    paths = [os.path.join(folder, "lmc-st") for folder in folders]
    return _library.find("lmc-st") or next(filter(os.path.isfile, paths), None)


def main() -> None:
    """Runs lmc-st with the arguments of this process."""
    program = command()
    if program is None:
        sys.exit("lmcodec: the command lmc-st is not there")
    os.execv(program, ["lmc-st", *sys.argv[1:]])


if __name__ == "__main__":
    main()
