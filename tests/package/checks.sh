# checks.sh - what the scripts of this folder count with. To be sourced; needs $work, a directory for a log.
passed=0
failed=0
skipped=0

check() { # NAME COMMAND...: runs a command; it must succeed
  name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $name: $*"
    cat "$work/log"
  fi
}

says() { # TEXT COMMAND...: it must print just this
  wanted=$1
  shift
  [ "$("$@")" = "$wanted" ]
}

skip() { # NAME REASON
  skipped=$((skipped + 1))
  echo "SKIP $1: $2"
}

finish() { # the last line, and the exit status
  if [ "$skipped" -eq 0 ]; then
    echo "$passed passed, $failed failed"
  else
    echo "$passed passed, $failed failed, $skipped skipped"
  fi
  [ "$failed" -eq 0 ]
}
