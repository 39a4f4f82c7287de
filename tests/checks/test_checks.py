"""Rules that the source of the project keeps. Each file check_*.py beside this one has a function check(tree) that
yields one line for each fault; a check that raises Skip is skipped. Those that compile the tree or measure are slow."""
import importlib
import os

import pytest

from tree import Skip, Tree

FAULTS_SHOWN = 30
HERE = os.path.dirname(os.path.abspath(__file__))
SLOW = {"bench_codec", "bench_peers", "bench_store", "bench_studies", "warnings", "windows"}
NAMES = sorted(name[len("check_"):-len(".py")] for name in os.listdir(HERE) if name.startswith("check_"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_check(build, name):
    tree = Tree(os.path.dirname(os.path.dirname(HERE)), build)
    faults = []
    try:
        for fault in importlib.import_module("check_" + name).check(tree):
            faults.append(fault)
    except Skip as reason:
        if not faults:
            pytest.skip(str(reason))
    if len(faults) > FAULTS_SHOWN:
        faults[FAULTS_SHOWN:] = ["and %d more" % (len(faults) - FAULTS_SHOWN)]
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)
