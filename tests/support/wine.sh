#!/bin/sh
# sh tests/support/wine.sh PROGRAM [ARGUMENT...]
#
# Runs a Windows program of a build under Wine (Debian: wine wine64). Wine keeps what the program takes for a machine in
# a folder, build/wine or LMC_WINE_PREFIX, which the first call makes; that takes some seconds. CMake's toolchain file
# tests/format/cross/windows.cmake names this script as its emulator.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
WINEPREFIX=${LMC_WINE_PREFIX:-$root/build/wine}
WINEDEBUG=${WINEDEBUG:--all}
# no windows that offer to install something, and no debugger that prints after a crash
WINEDLLOVERRIDES=${WINEDLLOVERRIDES:-mscoree,mshtml=;winedbg.exe=d}
LC_ALL=C.UTF-8 # names and arguments are UTF-8 for Wine
export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES LC_ALL
unset DISPLAY WAYLAND_DISPLAY
unset TMPDIR # Wine's server would be another one for each value

# Wine puts pages at 0x7ffe0000 and does not look whether the heap is there, unless its preloader has kept the place
# free, which Debian has in a package of its own. Recent Linux begins the heap anywhere in the GiB behind the program:
# one start in 8000 ended with status 1 and no message, others broke down at their end. With nothing random, the heap
# begins right behind the program. Some containers forbid to ask for that.
not_random=
if setarch -R true 2>/dev/null; then
    not_random="setarch -R"
fi

# The first program starts Wine's own ones, which keep its output open and stay for a while: it must not be one whose
# output somebody reads to the end. wineserver fails if there is one. This shell has the lock until all of them are
# there: "||" keeps it from becoming the last command itself.
mkdir -p "$WINEPREFIX"
if ! (
    flock 9
    if [ ! -e "$WINEPREFIX/made" ]; then
        $not_random wineboot --init 9>&- && wineserver --wait && : >"$WINEPREFIX/made"
    fi
    if wineserver --persistent=600 9>&-; then
        $not_random wine cmd /c exit 9>&- || exit 1
    fi
) 9>"$WINEPREFIX/lock" </dev/null >/dev/null 2>"$WINEPREFIX/log"; then
    echo "wine.sh: Wine does not start; see $WINEPREFIX/log" >&2
    exit 126
fi
exec $not_random wine "$@"
