# Adds up the tests in the output of `ctest -V`: prints "PASSED FAILED SKIPPED".
# A program says "LMC-TESTS passed=N failed=N [skipped=N]" on its last line; one that does not is a
# single test. A program that fails with no failure counted (a crash, a leak) is one failure more.

function value(name, line) {
    return match(line, name "=[0-9]+") ? substr(line, RSTART + length(name) + 1, RLENGTH - length(name) - 1) : 0
}

/^ *[0-9]+: LMC-TESTS / {
    id = $1 + 0
    reported[id] = 1
    passed += value("passed", $0)
    skipped += value("skipped", $0)
    failed_in[id] = value("failed", $0)
    failed += failed_in[id]
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
