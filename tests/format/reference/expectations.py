"""expectations.py - the tables EXPECT.tsv of tests/format/vectors: a line for each damaged frame or chunk with its
name, the status that a decoder must end with, the rule that is broken, the bytes in base64, and those of its base if
there is one."""
import base64
from collections import namedtuple

Expectation = namedtuple("Expectation", "name status rule data base", defaults=(None,))


def text_of(cases):
    """The table of {name: (status, rule, data[, base])}."""
    lines = []
    for name, (status, rule, *data) in sorted(cases.items()):
        coded = [base64.b64encode(part).decode() for part in data if part is not None]
        lines.append("\t".join([name, status, rule, *coded]) + "\n")
    return "".join(lines).encode()


def read_table(path):
    with open(path, encoding="ascii") as file:
        fields = [line.rstrip("\n").split("\t") for line in file]
    return [Expectation(*line[:3], *map(base64.b64decode, line[3:])) for line in fields]
