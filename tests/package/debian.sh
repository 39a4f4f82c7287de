#!/bin/sh
# debian.sh - builds the Debian packages from an export of the tree, has lintian look at them, and uses what they
# install. They are not optimized, which saves time. Nothing is installed on this machine: debian_installed.sh alone
# sees their files, mounted over those of the system. The last line is "N passed, N failed[, N skipped]".
set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$source/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$source/checks.sh"

for tool in dpkg-buildpackage dh dh_python3 lintian git; do
  if ! command -v "$tool" >"$work/log"; then
    skip "Debian packages" "needs $tool (Debian: build-essential debhelper dh-python lintian git)"
    finish
    exit
  fi
done
if ! git -C "$root" rev-parse HEAD >"$work/log" 2>&1; then
  skip "Debian packages" "this is not a clone"
  finish
  exit
fi

version=$(sed -n 's/^project(lmc VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
tree=$work/lmc-$version
mkdir "$tree"
git -C "$root" ls-files -z --cached --others --exclude-standard |
  tar -C "$root" --null --ignore-failed-read -cf - -T - 2>"$work/log" | tar -C "$tree" -xf -

build_packages() {
  cd "$tree" && env -u CFLAGS -u LDFLAGS -u LMC_KERNELS MAKEFLAGS= \
    DEB_BUILD_OPTIONS="nocheck noopt noautodbgsym parallel=${LMC_JOBS:-2}" dpkg-buildpackage -us -uc -b
}
check "packages: build" build_packages
if [ "$failed" -ne 0 ]; then
  finish
  exit
fi
# There is no bug of Debian that asks for the package.
check "packages: lintian" lintian --allow-root --fail-on error,warning \
  --suppress-tags initial-upload-closes-no-bugs "$work"/lmc_*.changes
check "packages: what they need is there" apt-get install --simulate -o Debug::NoLocking=1 "$work"/*.deb

for package in "$work"/*.deb; do
  dpkg-deb -x "$package" "$work/files"
done
mount_files='mount -t overlay overlay -o "lowerdir=$1/files/usr:/usr" /usr && shift && exec "$@"'
entered=
for option in -m -rm; do
  if unshare "$option" sh -c "$mount_files" sh "$work" true >"$work/log" 2>&1; then
    entered=$option
    break
  fi
done
if [ -n "$entered" ]; then
  mkdir "$work/installed"
  status=0
  unshare "$entered" sh -c "$mount_files" sh "$work" sh "$source/debian_installed.sh" "$work/installed" "$version" \
    >"$work/installed.log" 2>&1 || status=$?
  sed '$d' "$work/installed.log"
  counts=$(sed -n -E '$s/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$work/installed.log")
  check "packages: use" test -n "$counts"
  set -- $counts
  passed=$((passed + ${1:-0}))
  failed=$((failed + ${2:-0}))
  skipped=$((skipped + ${3:-0}))
else
  skip "installed packages" "this machine forbids to mount their files over those of the system"
fi
finish
