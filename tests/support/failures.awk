# Prints what failed in the log of `ctest -V`, of pytest or of a script; give the file twice. Of ctest's programs those
# that failed are shown, without what ctest and CUnit say of tests that passed; of a test its first five faults.

function is_failure(line) {
    return line ~ /^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / && line !~ / Passed +[0-9.]+ sec/
}

function is_noise(line) {
    return line ~ /: +(Test: .*passed|Suite: |Test command: |Working Directory: |Test timeout )/ ||
        line ~ /: +(CUnit - |http:|Run Summary:|suites |asserts |Elapsed )/ ||
        line ~ /: +([6-9]|[0-9][0-9]+)\. / || line ~ /^([0-9]+: )?[.sxEF]+ +\[ *[0-9]+%\]$/
}

FNR == NR {
    if (is_failure($0)) {
        split($0, parts, "#")
        failed[parts[2] + 0] = 1
    }
    is_ctest = is_ctest || /^Test project /
    next
}

!is_ctest && !is_noise($0) { print }

is_ctest && (is_failure($0) || (/^[0-9]+: +[^ ]/ && (($1 + 0) in failed) && !is_noise($0))) { print }
