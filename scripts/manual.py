"""manual.py - writes the options of each command into the manual page, from the command's help texts.

    python3 scripts/manual.py BUILD

An option's tag and first sentence in tool/lmc-st.1 come from the table of options in tool/args.c. What stands behind a
line `.\\" more` is kept by hand. tests/checks/check_help.py compares the page with what this would write.
"""

import os
import re
import subprocess
import sys
import textwrap

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tool", "lmc-st.1")
MORE = '.\\" more\n'
OPTION = re.compile(r"^ {2}(?:-(\w), |    )--([\w-]+)(?: ([A-Z:]+))? +(.*(?:\n {21}.*)*)", re.M)


def roff(text):
    """The text of a help text as a sentence."""
    text = re.sub(r"; lmc-st\(1\) has \w+ keys$", "", " ".join(text.split()))
    text = text.replace("-", "\\-")
    text = re.sub(r'"([^"]*)"', r"\\(lq\1\\(rq", text[0].upper() + text[1:])
    text = text[0] + re.sub(r"\b(?!SHA\b)([A-Z]+)\b", r"\\fI\1\\fP", text[1:])
    lines = textwrap.wrap(text + "." * (not text.endswith("...")), 80, break_long_words=False, break_on_hyphens=False)
    return "".join("\\&" * line.startswith((".", "'")) + line + "\n" for line in lines)


def tag(letter, name, value):
    name = name.replace("-", "\\-")
    value = "" if not value else ' " ' + re.sub(r"([A-Z]+)", r"\\fI\1\\fP", value) + '"'
    if letter:
        return f'.BR \\-{letter} ", " \\-\\-{name}{value}\n'
    return f".BR \\-\\-{name}{value}\n" if value else f".B \\-\\-{name}\n"


def section(tool, command, text):
    """The section of a command: its own text, then its options but for --help, which the page has elsewhere."""
    prose, *entries = re.split(r"^\.TP\n", text, flags=re.M)
    kept = {}
    for entry in entries:
        name = re.search(r"\\-\\-([\w\\-]+)", entry.split("\n")[0]).group(1).replace("\\", "")
        kept[name] = entry.partition(MORE)[2]
    told = subprocess.run([tool, *command.split(), "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout
    for letter, name, value, first in OPTION.findall(told):
        if name != "help":
            more = kept.get(name)
            prose += ".TP\n" + tag(letter, name, value) + roff(first) + (MORE + more if more else "")
    return prose


def page_of(tool, page):
    """The page with the options of this lmc-st."""
    begin, end = (re.search(rf"^\.SH {name}\n", page, re.M) for name in ("COMMANDS", "BASES"))
    parts = re.split(r"^\.SS ([\w ]+)\n", page[begin.end():end.start()], flags=re.M)
    sections = (f".SS {name}\n{section(tool, name, text)}" for name, text in zip(parts[1::2], parts[2::2]))
    return page[:begin.end()] + parts[0] + "".join(sections) + page[end.start():]


def main():
    with open(PAGE, encoding="ascii") as file:
        page = file.read()
    wanted = page_of(os.path.join(sys.argv[1], "tool", "lmc-st"), page)
    with open(PAGE, "w", encoding="ascii") as file:
        file.write(wanted)


if __name__ == "__main__":
    main()
