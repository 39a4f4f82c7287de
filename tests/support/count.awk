# Adds up the tests in the log of `ctest -V`, of pytest or of a script: prints "PASSED FAILED SKIPPED". The lines of a
# program that ctest runs begin with its number. Each program tells its tests in one line:
#
#   LMC-TESTS passed=N failed=N [skipped=N]                   a CUnit program
#   N passed, N failed[, N skipped]                           a script
#   N failed, N passed, N skipped, N errors in 1.00s          pytest
#
# A program that tells none is a single test. One that fails with no failure counted (a crash, a leak) is one failure
# more.

function add(id, what, number) {
    reported[id] = 1
    if (what == "passed") {
        passed += number
    } else if (what == "skipped") {
        skipped += number
    } else if (what ~ /^(failed|errors?)$/) {
        failed += number
        failed_in[id] += number
    }
}

{
    line = $0
    id = -1
    if (match(line, /^ *[0-9]+: /)) {
        id = line + 0
        line = substr(line, RLENGTH + 1)
    }
    gsub(/(^=+ )|( =+$)/, "", line)
}

line ~ /^LMC-TESTS / {
    count = split(line, words, /[ =]/)
    for (i = 2; i < count; i += 2) {
        add(id, words[i], words[i + 1])
    }
}

line ~ /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ ||
line ~ /^([0-9]+ [a-z ]+, )*[0-9]+ [a-z ]+ in [0-9.]+s( \([0-9:, a-z]+\))?$/ {
    sub(/ in [0-9.]+s.*/, "", line)
    count = split(line, parts, ", ")
    for (i = 1; i <= count; i++) {
        split(parts[i], words, " ")
        add(id, words[2], words[1])
    }
}

# " 3/12 Test  #7: test_frame .......   Passed    0.10 sec"
/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / {
    split($0, parts, "#")
    id = parts[2] + 0
    if ($0 ~ / Passed +[0-9.]+ sec/) {
        passed += !reported[id]
    } else {
        failed += !failed_in[id]
    }
}

END { print passed + 0, failed + 0, skipped + 0 }
