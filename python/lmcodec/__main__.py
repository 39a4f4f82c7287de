"""The command lmc-st: this process becomes the native program."""

import os
import sys
from typing import NoReturn

from lmcodec._library import native_dir


def main() -> NoReturn:
    """Runs lmc-st with the arguments of this process."""
    os.execv(os.path.join(native_dir(), "lmc-st"), ["lmc-st", *sys.argv[1:]])


if __name__ == "__main__":
    main()
