"""Tests of a build for another processor, run by an emulator: programs of tests/unit with every kernel set that such a
processor has, and frames that must be the same, byte for byte, as those of the build for this machine.

    run.py --native build/test --cross build/neon --emulator "qemu-aarch64 -L DIR" --sets neon,scalar [--jobs N]

Ends with "N passed, N failed"; a line before says what was left out, since an emulator is slow.
"""

import argparse
import concurrent.futures
import filecmp
import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT = os.path.join(HERE, "..", "unit")
DATA = os.path.join(HERE, "..", "..", "examples", "data")

# Programs to run with the best set; those that compare all sets by themselves need no other one.
WITH_BEST_SET = """test_kernels test_kernels_delta test_block test_base_nbytes test_corrupt test_delta_base
    test_delta_damage test_delta_forged test_delta_pieces test_delta_round_trip test_delta_stage test_delta_values
    test_frame test_frame_args test_frame_pieces test_frame_range test_gap test_golden test_plane test_symbols
    test_low_memory test_overlap test_reentry test_threads test_wire_sizes""".split()
WITH_EVERY_SET = "test_frame_pieces test_frame_range test_gap test_golden test_plane test_symbols".split()

# Seconds each under an emulator, for what other tests here touch, too.
LEFT_OUT = {
    "test_block": ["test_blocks"],
    "test_corrupt": ["test_every_bit"],
    "test_delta_base": ["test_overhead"],
    "test_delta_damage": ["test_every_bit"],
    "test_delta_round_trip": ["test_distances", "test_shares", "test_kinds", "test_identical", "test_block_sizes",
                              "test_large"],
    "test_delta_stage": ["test_any_plan"],
    "test_delta_values": ["test_all_patterns_of_16_bits"],
    "test_frame": ["test_simple_contents_get_small", "test_noise_is_never_much_larger"],
}

# Level, dtype, file, base: what encode_file.c is given.
FILES = [
    (0, "BF16", "step03000.bf16", None),
    (1, "BF16", "step03000.bf16", None),
    (2, "BF16", "step03000.bf16", None),
    (0, "F32", "step03000.f32-part", None),
    (1, "F32", "step03000.f32-part", None),
    (0, "F64", "step03000.f32-part", None),
    (0, "F8_E4M3", "step03000.bf16", None),
    (0, "U8", "step03000.f32-part", None),
    (0, "F32", "step03000.optim", None),
    (0, "BF16", "step03010.bf16", "step03000.bf16"),
    (1, "BF16", "step03010.bf16", "step03000.bf16"),
    (0, "U8", "step03010.bf16", "step03000.bf16"),
]
TIMEOUT_S = 300


def names_of_tests(program):
    with open(os.path.join(UNIT, program + ".c"), encoding="ascii") as file:
        return re.findall(r"LMC_TEST\((\w+)\)", file.read())


class Cross:
    def __init__(self, args):
        self.native, self.cross = args.native, args.cross
        self.emulator = shlex.split(args.emulator)

    def run(self, kernel_set, program, *arguments):
        """With kernel_set None: the program of this machine. Returns status and output."""
        build, emulator = (self.cross, self.emulator) if kernel_set else (self.native, [])
        environment = dict(os.environ, LMC_KERNELS=kernel_set or "")
        command = [*emulator, os.path.join(build, "tests", program), *arguments]
        try:
            result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return 1, f"not done after {TIMEOUT_S} s\n"
        return result.returncode, result.stdout.decode("utf-8", "replace")

    def check_set(self, kernel_set):
        """The programs use the set at all."""
        status, output = self.run(kernel_set, "kernels_name")
        good = status == 0 and output == kernel_set + "\n"
        return (1, 0, "") if good else (0, 1, f"kernels_name says: {output}")

    def run_tests(self, kernel_set, program):
        names = names_of_tests(program)
        left_out = LEFT_OUT.get(program, [])
        wanted = [name for name in names if name not in left_out]
        if not set(left_out) <= set(names):
            return 0, 1, "a test that is to be left out is not there"
        status, output = self.run(kernel_set, program, *(wanted if left_out else []))
        found = re.search(r"^LMC-TESTS passed=(\d+) failed=(\d+)", output, re.M)
        if not found or (status != 0 and found.group(2) == "0") or int(found.group(1)) == 0:
            return 0, 1, output + f"exit status {status}"
        passed, failed = int(found.group(1)), int(found.group(2))
        return passed, failed, output if failed else ""

    def compare(self, sets, program, arguments_for):
        """arguments_for(DIR): those that make the program write to DIR, which every set must fill alike."""
        with tempfile.TemporaryDirectory() as work:
            contents = []
            for kernel_set in [None, *sets]:
                directory = os.path.join(work, kernel_set or "native")
                os.mkdir(directory)
                status, output = self.run(kernel_set, program, *arguments_for(directory))
                if status != 0:
                    return 0, 1, f"{kernel_set or 'native'}: exit status {status}\n{output}"
                contents.append(sorted(os.listdir(directory)))
            for kernel_set in sets:
                _, differing, errors = filecmp.cmpfiles(os.path.join(work, "native"), os.path.join(work, kernel_set),
                                                        contents[0], shallow=False)
                if differing or errors:
                    return 0, 1, f"{kernel_set}: not the same as on this machine: {differing + errors}"
            same_names = contents[0] != [] and all(names == contents[0] for names in contents)
            return (1, 0, "") if same_names else (0, 1, f"files: {contents}")

    def compare_file(self, sets, level, dtype, name, base):
        path, *base_path = [os.path.join(DATA, stem + ".safetensors") for stem in (name, base) if stem]
        return self.compare(sets, "encode_file", lambda directory: [
            str(level), dtype, path, os.path.join(directory, "frame"), *base_path])


def jobs_of(cross, sets):
    """Name and call of everything there is to do, the long ones first."""
    for program in WITH_BEST_SET:
        yield f"{sets[0]} {program}", cross.run_tests, (sets[0], program)
    for kernel_set in sets[1:]:
        for program in WITH_EVERY_SET:
            yield f"{kernel_set} {program}", cross.run_tests, (kernel_set, program)
    for file in FILES:
        yield f"frame of {file}", cross.compare_file, (sets, *file)
    for program in ("make_vectors", "make_delta_vectors"):
        yield f"frames of {program}", cross.compare, (sets, program, lambda directory: [directory])
    for kernel_set in sets:
        yield f"{kernel_set} is there", cross.check_set, (kernel_set,)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", required=True)
    parser.add_argument("--cross", required=True)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--sets", required=True, help="kernel sets, the best first, with commas")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [(name, pool.submit(call, *arguments))
                   for name, call, arguments in jobs_of(Cross(args), args.sets.split(","))]
        for name, future in futures:
            more_passed, more_failed, output = future.result()
            passed += more_passed
            failed += more_failed
            print(f"{'FAIL' if more_failed else 'ok'} {name}: {more_passed} passed, {more_failed} failed")
            if output:
                print(output)
    print("left out under the emulator: " +
          ", ".join(f"{name} of {program}" for program, names in LEFT_OUT.items() for name in names))
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
