#!/bin/sh
# sh tests/support/wine.sh PROGRAM [ARGUMENT...]
#
# Runs a Windows program of a build under Wine (Debian: wine64). Wine keeps what the program takes for a machine in a
# folder, build/wine or LMC_WINE_PREFIX, which the first call makes; that takes some seconds. CMake's toolchain file
# tests/format/cross/windows.cmake names this script as its emulator.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
WINEPREFIX=${LMC_WINE_PREFIX:-$root/build/wine}
WINEDEBUG=${WINEDEBUG:--all}
# no windows that offer to install something, and no debugger that prints after a crash
WINEDLLOVERRIDES=${WINEDLLOVERRIDES:-mscoree,mshtml=;winedbg.exe=d}
export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES
unset DISPLAY WAYLAND_DISPLAY

if ! [ -e "$WINEPREFIX/made" ]; then
    mkdir -p "$WINEPREFIX"
    (
        flock 9
        [ -e "$WINEPREFIX/made" ] || { wineboot --init >&2 && wineserver --wait && : >"$WINEPREFIX/made"; }
    ) 9>"$WINEPREFIX/lock"
fi
exec wine "$@"
