# Prints what the failed programs said in the output of `ctest -V`; give the file twice. Left out: what
# ctest and CUnit say of tests that passed, and all but the first five faults of a test.

function is_failure(line) {
    return line ~ /^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: / && line !~ / Passed +[0-9.]+ sec/
}

function is_noise(line) {
    return line ~ /: +(Test: .*passed|Suite: |Test command: |Working Directory: |Test timeout )/ ||
        line ~ /: +(CUnit - |http:|Run Summary:|suites |asserts |Elapsed )/ ||
        line ~ /: +([6-9]|[0-9][0-9]+)\. /
}

FNR == NR {
    if (is_failure($0)) {
        split($0, parts, "#")
        failed[parts[2] + 0] = 1
    }
    next
}

is_failure($0) || (/^[0-9]+: +[^ ]/ && (($1 + 0) in failed) && !is_noise($0)) { print }
