"""documents.py - the Python examples of a document in docs/."""
import os
import re

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs")


def text_of(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


def examples_of(name, section=""):
    """The examples of a document, or of its section of the level `##`; behind so many empty lines that the numbers of
    their lines are those of the document."""
    text = text_of(name)
    begin, end = 0, len(text)
    if section:
        begin, end = re.search(r"^## %s\n.*?(?=^## |\Z)" % re.escape(section), text, re.M | re.S).span()
    found = re.finditer(r"^```python\n(.*?)^```", text[begin:end], re.M | re.S)
    return ["\n" * text.count("\n", 0, begin + match.start(1)) + match[1] for match in found]


def run_examples(name, section=""):
    """Runs them one after another, with the same names. Returns how many there are."""
    names = {}
    found = examples_of(name, section)
    for example in found:
        exec(compile(example, name, "exec"), names)
    return len(found)
