"""The command lmc-st: this process becomes the native program."""

import os
import sys
from typing import NoReturn

from lmcodec import _library


def main() -> NoReturn:
    """Runs lmc-st with the arguments of this process."""
    program = _library.find("lmc-st")
    if program is None:
        sys.exit("lmcodec: the command lmc-st is not there")
    os.execv(program, ["lmc-st", *sys.argv[1:]])


if __name__ == "__main__":
    main()
