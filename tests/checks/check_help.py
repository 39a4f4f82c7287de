"""The help texts of lmc-st fit a screen, and the manual page names the same commands and options as the help texts do,
no more and no fewer. The command makes its help texts, and what completions offer, from the table that it parses
options with (tool/args.c)."""

import os
import re

from tree import run

ROWS, COLUMNS = 24, 80
MANUAL = "tool/lmc-st.1"
OPTION = re.compile(r"(?<![\w-])(?:-[a-z]|--[a-z][a-z0-9-]*)(?![\w-])")
SYNOPSIS = r"^\.SH SYNOPSIS\n(.*?)^\.SH"  # where commands are listed, and an item of it
SYNOPSIS_ITEM = r"^\.B lmc-st ([a-z]+)$"
GENERAL = ""  # stands for the command line before a command


# ---- what the command says ----

def help_text(tool, *arguments):
    status, text = run(tool, *arguments)
    if status != 0:
        raise ValueError(f"lmc-st {' '.join(arguments)}: exit status {status}")
    return text


def commands_of(general):
    return re.findall(r"^  lmc-st ([a-z]+)  ", general, re.M)


def run_commands_of(text):
    return re.findall(r"^  lmc-st run ([a-z]+)  ", text, re.M)


def options_of(text):
    """Options that have a line of their own, "  -o, --output OUT   ..."."""
    lines = re.findall(r"^ {2,6}(-[a-z-][^\n]*)", text, re.M)
    return {name for line in lines for name in OPTION.findall(re.split(r" {2,}", line)[0])}


def general_options(text):
    return {name for line in re.findall(r"^  lmc-st (?:COMMAND )?(-[^\n]*)", text, re.M)
            for name in OPTION.findall(line.split("  ")[0])}


# ---- what the manual says: command -> options ----

def in_manual(text):
    """Sections .SS of COMMANDS, and the section OPTIONS for what belongs to none; an option begins a .TP."""
    found = {}
    text = re.sub(r"\\f[BIPR]", "", text).replace("\\-", "-")
    section = re.search(r"^\.SH COMMANDS\n(.*?)^\.SH", text, re.M | re.S).group(1)
    parts = re.split(r"^\.SS ([\w ]+)\n", section, flags=re.M)[1:]
    parts += [GENERAL, re.search(r"^\.SH OPTIONS\n(.*?)^\.SH", text, re.M | re.S).group(1)]
    for name, part in zip(parts[::2], parts[1::2]):
        tags = re.findall(r"^\.TP\n(\.B[^\n]*)", part, re.M)
        found[name] = {option for tag in tags for option in OPTION.findall(tag)}
    return found


# ---- the comparison ----

def fits(name, text):
    lines = text.splitlines()
    if len(lines) > ROWS:
        yield f"{name}: the help text has {len(lines)} lines, at most {ROWS}"
    for line in lines:
        if len(line) > COLUMNS:
            yield f"{name}: a line of the help text has {len(line)} columns, at most {COLUMNS}: {line}"


def differences(where, found, wanted):
    for name in sorted(set(wanted) - set(found)):
        yield f"{where}: lacks the command {name}"
    for name in sorted(set(found) - set(wanted)):
        yield f"{where}: there is no command {name}"
    for name in sorted(set(found) & set(wanted)):
        for option in sorted(wanted[name] - found[name]):
            yield f"{where}: {name or 'lmc-st'}: lacks {option}"
        for option in sorted(found[name] - wanted[name]):
            yield f"{where}: {name or 'lmc-st'}: there is no option {option}"


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
    run_commands = run_commands_of(help_text(tool, "run", "--help"))
    all_commands = [*commands, *(f"run {name}" for name in run_commands)]
    texts = {name: help_text(tool, *name.split(), "--help") for name in all_commands}
    wanted = {name: options_of(text) for name, text in texts.items()}
    wanted[GENERAL] = general_options(general) | {"-h", "--help", "-t", "--test"}
    yield from fits("lmc-st", general)
    for name, text in texts.items():
        yield from fits(name, text)
        if {"-h", "--help"} - wanted[name]:
            yield f"{name}: its help text does not name -h, --help"

    manual = tree.text(MANUAL)
    yield from differences(MANUAL, in_manual(manual), wanted)
    yield from lists_of_commands(MANUAL, manual.replace("\\-", "-"), SYNOPSIS, SYNOPSIS_ITEM, commands)
