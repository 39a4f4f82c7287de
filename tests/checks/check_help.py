"""The help texts of lmc-st fit a screen, and the manual page has the commands and options that scripts/manual.py writes
from them. The command makes its help texts, and what completions offer, from the table that it parses options with
(tool/args.c)."""

import os
import re
import sys

from tree import run

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import manual as manual_page  # noqa: E402

ROWS, COLUMNS = 24, 80
MANUAL = "tool/lmc-st.1"
SYNOPSIS = r"^\.SH SYNOPSIS\n(.*?)^\.SH"  # where commands are listed, and an item of it
SYNOPSIS_ITEM = r"^\.B lmc-st ([a-z]+)$"


# ---- what the command says ----

def help_text(tool, *arguments):
    status, text = run(tool, *arguments)
    if status != 0:
        raise ValueError(f"lmc-st {' '.join(arguments)}: exit status {status}")
    return text


def commands_of(general):
    return re.findall(r"^  lmc-st ([a-z]+)  ", general, re.M)


def commands_of_group(group, text):
    """`run add` and so on."""
    return [f"{group} {name}" for name in re.findall(rf"^  lmc-st {group} ([a-z]+)  ", text, re.M)]


# ---- the comparison ----

def fits(name, text):
    lines = text.splitlines()
    if len(lines) > ROWS:
        yield f"{name}: the help text has {len(lines)} lines, at most {ROWS}"
    for line in lines:
        if len(line) > COLUMNS:
            yield f"{name}: a line of the help text has {len(line)} columns, at most {COLUMNS}: {line}"


def lists_of_commands(where, text, place, item, commands):
    """Each place that lists the commands has all of them; some have `help` besides."""
    places = re.findall(place, text, re.M | re.S)
    if not places:
        yield f"{where}: no list of commands"
    for listed in places:
        found = set(re.findall(item, listed, re.M)) - {"help"}
        if found != set(commands):
            yield f"{where}: a list of the commands differs in {' '.join(sorted(found ^ set(commands)))}"


def check(tree):
    tool = os.path.join(tree.build, "tool", "lmc-st")
    if not os.path.exists(tool):
        yield f"{tool}: not found"
        return
    general = help_text(tool, "--help")
    commands = commands_of(general)
    all_commands = list(commands)
    for group in ("run", "store"):
        at = all_commands.index(group) + 1
        all_commands[at:at] = commands_of_group(group, help_text(tool, group, "--help"))
    texts = {name: help_text(tool, *name.split(), "--help") for name in all_commands}
    yield from fits("lmc-st", general)
    for name, text in texts.items():
        yield from fits(name, text)
        if "-h, --help" not in text:
            yield f"{name}: its help text does not name -h, --help"

    manual = tree.text(MANUAL)
    sections = re.findall(r"^\.SS ([\w ]+)\n", manual.partition(".SH COMMANDS\n")[2].partition("\n.SH ")[0], re.M)
    if sections != all_commands:
        yield f"{MANUAL}: its sections of commands are {sections}, not {all_commands}"
    elif manual_page.page_of(tool, manual) != manual:
        yield f"{MANUAL}: its options are not those of lmc-st; scripts/manual.py writes them"
    yield from lists_of_commands(MANUAL, manual.replace("\\-", "-"), SYNOPSIS, SYNOPSIS_ITEM, commands)
