#!/bin/sh
# bare_systems.sh [SUITE...] - first_minute.sh on bare Debian and Ubuntu, with this clone and with what
# scripts/release.sh has put into dist/.
#
# Suites: bookworm, trixie (Debian 12, 13), noble, resolute (Ubuntu 24.04, 26.04); all of them if none is named. For
# root, with debootstrap, on x86-64. build/bare/SUITE.log has what was done. About three minutes for each.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
work=$root/build/bare
inside=/srv # the folder in the new system
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "bare_systems.sh: needs root and debootstrap" >&2
  exit 2
fi
if ! ls "$root"/dist/*.deb "$root"/dist/*manylinux*x86_64.whl >/dev/null; then
  echo "bare_systems.sh: dist/ has no packages: sh scripts/release.sh" >&2
  exit 2
fi

# The certificates of this machine are for a proxy, if it is behind one.
in_system() { # COMMAND...
  chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "PIP_CERT=$inside/certificates" "SSL_CERT_FILE=$inside/certificates" "$@"
}

make_system() { # SUITE
  mirror=http://deb.debian.org/debian
  options="--variant=minbase --components=main"
  case $1 in
  noble | resolute)
    mirror=http://archive.ubuntu.com/ubuntu
    options="--variant=minbase --components=main,universe"
    [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || options="$options --no-check-gpg"
    ;;
  esac
  script=/usr/share/debootstrap/scripts/$1
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy # all of Ubuntu's are that one
  debootstrap $options "$1" "$system" "$mirror" "$script"
  cp /etc/resolv.conf "$system/etc/resolv.conf"
  cp /etc/ssl/certs/ca-certificates.crt "$system$inside/certificates"
  git clone -q "$root" "$system$inside/lmc"
  cp -r "$root/dist" "$system$inside/dist"
  in_system apt-get update
}

# /dev of this machine must not be there when a system is removed.
unmount() {
  for mounted in "$system/dev" "$system/proc"; do
    ! mountpoint -q "$mounted" || umount -R -l "$mounted"
  done
}

try_system() { # SUITE
  unmount
  rm -rf --one-file-system "$system"
  mkdir -p "$system"
  make_system "$1"
  trap unmount EXIT
  mount -t proc proc "$system/proc"
  mount --rbind --make-rslave /dev "$system/dev"
  in_system sh "$inside/lmc/tests/package/first_minute.sh" "$inside/lmc" "$inside/dist"
}

failed=0
[ "$#" -gt 0 ] || set -- bookworm trixie noble resolute
mkdir -p "$work"
for suite; do
  system=$work/$suite
  set +e # in the condition of an if, no command would end try_system
  (
    set -e
    try_system "$suite"
  ) >"$work/$suite.log" 2>&1
  status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    echo "$suite: passed"
  else
    tail -n 20 "$work/$suite.log"
    echo "$suite: FAILED; all of it: $work/$suite.log"
    failed=1
  fi
done
exit "$failed"
