#!/bin/sh
# release.sh [--twice] [--only WHAT[,WHAT...]] [COMMIT] - builds the files of a release from a commit, by default HEAD.
#
#   source    lmc-VERSION.tar.gz
#   sdist     lmcodec-VERSION.tar.gz, the source archive for the Python package index
#   wheels    all that python/build_wheel.sh makes
#   debian    Debian packages, their source package among them
#
# With them come an SBOM, lmc-VERSION.spdx.json (scripts/sbom.py), and SHA256SUMS. Everything is made from the source
# archive, in build/release/. dist/ is replaced when all is there; what it held before is then in build/release/before.
#
# The same commit, the same tools and the same folder give the same bytes. --twice builds everything two times and
# compares: if files differ, it names them, ends with status 1 and leaves dist/ as it is.
set -eu
umask 022

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$root/build/release
tree=$work/tree
known="source sdist wheels debian"
usage="usage: release.sh [--twice] [--only WHAT[,WHAT...]] [COMMIT], where WHAT is one of: $known"

fail_usage() {
  echo "$usage" >&2
  exit 2
}

passes=files
parts=$known
commit=
while [ "$#" -gt 0 ]; do
  case $1 in
  --twice) passes="first second" ;;
  --only)
    [ "$#" -gt 1 ] && [ -n "$2" ] || fail_usage
    parts=$(echo "$2" | tr , ' ')
    shift
    ;;
  -*) fail_usage ;;
  *)
    [ -z "$commit" ] || fail_usage
    commit=$1
    ;;
  esac
  shift
done
for part in $parts; do
  case " $known " in *" $part "*) ;; *) fail_usage ;; esac
done

commit_name=${commit:-HEAD}
if ! commit=$(git -C "$root" rev-parse --verify --quiet "$commit_name^{commit}"); then
  echo "release.sh: there is no commit $commit_name" >&2
  exit 2
fi
if [ "$commit_name" = HEAD ] && [ -n "$(git -C "$root" status --porcelain)" ]; then
  echo "release: changes that are not committed are not in it" >&2
fi
version=$(git -C "$root" show "$commit:CMakeLists.txt" | sed -n 's/^project(lmc VERSION \([0-9.]*\).*/\1/p')
echo "release: lmc $version, commit $commit"

# What a user has set for other builds, and what differs between machines.
unset CFLAGS CPPFLAGS CXXFLAGS LDFLAGS MAKEFLAGS CMAKE_C_COMPILER_LAUNCHER CMAKE_GENERATOR LMC_KERNELS
SOURCE_DATE_EPOCH=$(git -C "$root" show -s --format=%ct "$commit")
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

unpack() { # DIR: makes DIR/lmc-VERSION
  rm -rf "$1"
  mkdir -p "$1"
  tar -xzf "$archive" --no-same-owner --no-same-permissions -C "$1"
}

# Tools stay from one build to the next. Nothing that a build makes does.
move_tools() { # FROM TO
  mkdir -p "$2"
  for tool in uv-cache venv-uv venv-wheel; do
    if [ -e "$1/$tool" ]; then
      rm -rf "${2:?}/$tool"
      mv "$1/$tool" "$2/"
    fi
  done
}

make_tree() {
  archive=$work/lmc-$version.tar.gz
  git -C "$root" -c tar.umask=0022 archive --format=tar --prefix="lmc-$version/" -o "$work/lmc.tar" "$commit"
  gzip -9n <"$work/lmc.tar" >"$archive"
  rm "$work/lmc.tar"
  move_tools "$tree/build" "$work/tools"
  rm -rf "$tree"
  unpack "$work/unpacked"
  mv "$work/unpacked/lmc-$version" "$tree"
  move_tools "$work/tools" "$tree/build"
}

build_source() {
  cp "$archive" "$out/"
}

build_sdist() {
  root=$tree
  cd "$root"
  . scripts/setup.sh
  lmc_venv_wheel
  "$lmc_venv_dir/bin/python" -m build --sdist --no-isolation --outdir "$out"
}

build_wheels() {
  cd "$tree"
  sh python/build_wheel.sh all
  cp dist/*.whl "$out/"
}

# .changes and .buildinfo describe the machine and the time of a build: they are no part of a release. xz writes
# different bytes with different numbers of threads.
build_debian() {
  root=$tree
  . "$root/scripts/setup.sh"
  lmc_apt build-essential cmake debhelper dh-python libcjson-dev libfuse3-dev libsqlite3-dev libxxhash-dev libzstd-dev
  unpack "$work/debian"
  cp "$archive" "$work/debian/lmc_$version.orig.tar.gz"
  cd "$work/debian/lmc-$version"
  DPKG_DEB_THREADS_MAX=1 XZ_DEFAULTS=-T1 DEB_BUILD_PROFILES=nocheck \
    DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$lmc_jobs" dpkg-buildpackage -us -uc
  cp ../*.deb ../*.dsc ../*.tar.?z "$out/"
}

describe() {
  root=$tree
  . "$root/scripts/setup.sh"
  system=$(dirname "$(lmc_header_path xxhash.h || true)")
  python3 "$root/scripts/sbom.py" "$out" "$root/build/dependencies/src" "$system" >"$work/sbom"
  mv "$work/sbom" "$out/lmc-$version.spdx.json"
  cd "$out"
  sha256sum -- * >"$work/sums"
  mv "$work/sums" SHA256SUMS
}

step() { # FUNCTION WHAT: in a shell of its own, quietly unless it fails
  started=$(date +%s)
  log=$work/log/$2.log
  set +e
  (
    set -e
    "$1"
  ) >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$log" >&2
    echo "release.sh: $2 failed; all of it: $log" >&2
    exit 1
  fi
  echo "release: $2, $(($(date +%s) - started)) s"
}

mkdir -p "$work/log"
for pass in $passes; do
  out=$work/$pass
  rm -rf "$out"
  mkdir "$out"
  make_tree
  for part in $parts; do
    step "build_$part" "$part"
  done
  step describe sums
done

if [ "$passes" != files ]; then
  if ! diff "$work/first/SHA256SUMS" "$work/second/SHA256SUMS" >"$work/log/diff.log"; then
    echo "release.sh: files that are not the same in $work/first and $work/second:" >&2
    sed -n 's/^[<>] [0-9a-f]*  /  /p' "$work/log/diff.log" | sort -u >&2
    exit 1
  fi
  echo "release: both builds gave the same files"
fi
rm -rf "$work/before"
[ ! -e "$root/dist" ] || mv "$root/dist" "$work/before"
mv "$out" "$root/dist"
(cd "$root/dist" && ls)
