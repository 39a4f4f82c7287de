"""Indexes of sharded models: one that names anything but plain files beside it is refused before anything is
written."""
import json
import os

import pytest

from support import check, check_only, write
from trees import Untouched, check_archived, check_restores, index, remove, shard, small_tree

NAMES = ("model.safetensors.index.json", "model.safetensors.index.fp16.json",
         "diffusion_pytorch_model.safetensors.index.json", ".safetensors.index.json",
         "model.safetensors.index.fp16.v2.json")


def make(directory):
    """A model with shards a and sub/b; good files stand wherever a hostile name could lead."""
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(directory, "outside.safetensors"), shard(3))
    for name in ("sub\\b.safetensors", "..\\outside.safetensors", "%2e%2e", "c:a.safetensors"):
        write(os.path.join(source, name), shard(3))
    os.mkdir(os.path.join(source, "folder.safetensors"))
    return source


# the JSON text of a value; DIRECTORY is where the model and outside.safetensors are
HOSTILE_VALUES = {
    "above": '"../outside.safetensors"',
    "above_by_escapes": r'"\u002e\u002e\u002foutside.safetensors"',
    "above_by_escaped_slash": r'"..\/outside.safetensors"',
    "above_through_folder": '"sub/../../outside.safetensors"',
    "absolute": '"DIRECTORY/outside.safetensors"',
    "absolute_inside": '"DIRECTORY/m/a.safetensors"',
    "root": '"/"',
    "etc": '"/etc/passwd"',
    "in_a_folder": '"sub/b.safetensors"',
    "dot_slash": '"./a.safetensors"',
    "slash_at_the_end": '"a.safetensors/"',
    "slash_twice": '"//a.safetensors"',
    "back_to_itself": '"sub/../a.safetensors"',
    "backslash": r'"sub\\b.safetensors"',
    "backslash_above": r'"..\\outside.safetensors"',
    "nul_at_the_end": r'"a.safetensors\u0000"',
    "nul_inside": r'"a.safetensors\u0000.json"',
    "nul_first": r'"\u0000a.safetensors"',
    "empty": '""',
    "dot": '"."',
    "dots": '".."',
    "space_at_the_end": '"a.safetensors "',
    "newline": r'"a.safetensors\n"',
    "wide_slash": '"sub\u2215b.safetensors"',
    "wide_dots": '"\u2025/outside.safetensors"',
    "no_width": '"a\u200b.safetensors"',
    "other_letters": '"\u0430.safetensors"',  # Cyrillic
    "capitals": '"A.safetensors"',
    "missing": '"c.safetensors"',
    "missing_shard": '"model-00001-of-00002.safetensors"',
    "folder": '"sub"',
    "folder_by_name": '"folder.safetensors"',
    "long": '"' + "x" * 5000 + '"',
    "home": '"~/a.safetensors"',
    "url": '"file:///etc/passwd"',
    "tilde": '"~"',
}
# (tests/unit/safetensors/test_st_index.c and test_st_json.c have faults of the text.)
HOSTILE_JSON = {
    "space": b" \n",
    "string": b'"a.safetensors"',
    "number": b"1",
    "other_case": b'{"Weight_Map":{"x":"a.safetensors"}}',
    "map_is_pairs": b'{"weight_map":[["x","a.safetensors"]]}',
    "map_is_null": b'{"weight_map":null}',
    "map_is_a_number": b'{"weight_map":0}',
    "value_is_null": b'{"weight_map":{"x":null}}',
    "value_is_a_list": b'{"weight_map":{"x":["a.safetensors"]}}',
    "value_is_an_object": b'{"weight_map":{"x":{"file":"a.safetensors"}}}',
    "value_is_true": b'{"weight_map":{"x":true}}',
    "second_value_is_null": b'{"weight_map":{"x":"a.safetensors","y":null}}',
    "two_objects": index("a.safetensors") * 2,
    "nul_at_the_end": index("a.safetensors") + b"\0",
    "deep_lists": b'{"metadata":' + b"[" * 100000 + b"]" * 100000 + b',"weight_map":{}}',
    "deep_objects": b'{"metadata":' + b'{"a":' * 100000 + b"1" + b"}" * 100000 + b',"weight_map":{}}',
    "deep_and_open": b'{"metadata":' + b"[" * 3000000,
    "deep_value": b'{"weight_map":{"x":' + b"[" * 100000 + b"]" * 100000 + b"}}",
    "bad_name_in_the_first_of_two_maps": b'{"weight_map":{"x":"../outside.safetensors"},"weight_map":{}}',
    "bad_name_in_the_second_of_two_maps": b'{"weight_map":{},"weight_map":{"x":"../outside.safetensors"}}',
    "bad_name_for_the_first_of_two_keys": b'{"weight_map":{"x":"../outside.safetensors","x":"a.safetensors"}}',
    "bad_name_for_the_second_of_two_keys": b'{"weight_map":{"x":"a.safetensors","x":"../outside.safetensors"}}',
    "bad_name_by_an_escaped_key": b'{"weight\\u005fmap":{"x":"../outside.safetensors"}}',
    "bad_name_last_of_many": json.dumps({"weight_map": {"w%d" % i: "a.safetensors" for i in range(200000)} |
                                         {"z": "/etc/passwd"}}).encode(),
}


def refuse_all(tool, directory, texts):
    source = make(directory)
    for what, text in texts.items():
        path = write(os.path.join(source, NAMES[0]), text)
        with Untouched(directory, what):
            tool.run("convert", source).expect(1, NAMES[0])
        os.unlink(path)
    tool.run("convert", source).expect(0)
    check_only(directory, "m", "m.lmc", "outside.safetensors")


@pytest.mark.posix("names with control characters")
def test_hostile_names(tool, directory):
    refuse_all(tool, directory, {
        what: ('{"weight_map": {"good": "a.safetensors", "bad": %s}}' % value.replace("DIRECTORY", directory)).encode()
        for what, value in HOSTILE_VALUES.items()})


@pytest.mark.posix("names with control characters")
def test_hostile_names_alone(tool, directory):
    """The first value counts as much as a later one."""
    refuse_all(tool, directory, {what: ('{"weight_map": {"": %s}}' % HOSTILE_VALUES[what]).encode()
                                 for what in ("above", "in_a_folder", "empty", "dot", "nul_at_the_end", "missing")})


@pytest.mark.posix("names with control characters")
def test_hostile_json(tool, directory):
    refuse_all(tool, directory, HOSTILE_JSON)


@pytest.mark.posix("names with control characters")
def test_every_place_of_an_index(tool, directory):
    source = make(directory)
    for folder in ("", "sub", "folder.safetensors", "deep/in/here"):
        os.makedirs(os.path.join(source, folder), exist_ok=True)
        for name in NAMES:
            path = write(os.path.join(source, folder, name), index("../outside.safetensors"))
            with Untouched(directory, path):
                tool.run("convert", source).expect(1, name, "plain name")
            os.unlink(path)
    path = os.path.join(source, NAMES[0])
    os.symlink("../index", path)
    write(os.path.join(directory, "index"), index("../outside.safetensors"))
    with Untouched(directory, "a link"):
        tool.run("convert", source).expect(1, NAMES[0])
    os.unlink(path)
    os.mkdir(path)
    tool.run("convert", source).expect(0)


def test_shard_beside_another_index(tool, directory):
    """Names count from the index's own folder."""
    source = small_tree(os.path.join(directory, "m"))
    path = write(os.path.join(source, "sub", NAMES[0]), index("a.safetensors"))
    tool.run("convert", source).expect(1, "missing")
    write(path, index("b.safetensors"))
    tool.run("convert", source).expect(0)
    os.unlink(os.path.join(source, "sub", "b.safetensors"))
    tool.run("convert", source, "-f").expect(1, "missing", '"b.safetensors"')


ACCEPTED = {
    "usual": index("a.safetensors", "c d.safetensors"),
    "empty_map": b'{"weight_map":{}}',
    "map_alone": b'{"weight_map":{"x":"a.safetensors"}}',
    "no_space": json.dumps(json.loads(index("a.safetensors")), separators=(",", ":")).encode(),
    "much_space": b" \r\n\t" + index("a.safetensors") + b"\n\n\r\t ",
    "escapes": br'{"weight\u005fmap":{"x":"\u0061.s\u0061fetensors","y":"c d.s\u0061fetensors"}}',
    "letters": '{"weight_map":{"\u00fc":"\u00e4.safetensors","v":"\\u00e4.safetensors"}}'.encode(),
    "odd_dots": b'{"weight_map":{"x":"...safetensors","y":"..a"}}',
    "link": b'{"weight_map":{"x":"link.safetensors"}}',
    "odd_metadata": b'{"metadata":{"a":[1e400,-0.5,true,null,[[[]]],{"b":"\\ud83d\\ude00"}]},"weight_map":{}}',
    "key_that_is_a_path": b'{"weight_map":{"../../etc/passwd":"a.safetensors","":"a.safetensors"}}',
    "ten_megabytes": json.dumps({"weight_map": {"model.layers.%06d.weight" % i: ("a.safetensors", "c d.safetensors")[
        i % 2] for i in range(200000)}}).encode(),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted(tool, directory, what):
    source = small_tree(os.path.join(directory, "m"))
    for name in ("c d.safetensors", "\u00e4.safetensors", "...safetensors"):
        write(os.path.join(source, name), shard(3))
    write(os.path.join(source, "..a"), b"")
    os.symlink("sub/b.safetensors", os.path.join(source, "link.safetensors"))
    write(os.path.join(source, NAMES[0]), ACCEPTED[what])
    tool.run("convert", source).expect(0)
    link = os.path.join(source, "link.safetensors")
    os.unlink(link)  # the tree that comes back has a file
    write(link, shard(2))
    os.chmod(link, os.stat(os.path.join(source, "sub", "b.safetensors")).st_mode)
    os.utime(link, ns=(0, os.stat(os.path.join(source, "sub", "b.safetensors")).st_mtime_ns))
    os.utime(source, ns=(0, 10**18))
    os.utime(source + ".lmc", ns=(0, 10**18))
    check_archived(tool, source, source + ".lmc", what)


def test_indexes_of_bin_files(tool, directory):
    """All of their files are there, or none; wherever they stand, archives serve when the directory is restored."""
    source = small_tree(os.path.join(directory, "m"))
    name = write(os.path.join(source, "pytorch_model.bin.index.json"), index("x-1.bin", "x-2.bin", "x-1.bin"))
    write(os.path.join(source, "x-1.bin"), b"of no known kind")
    with Untouched(directory):
        tool.run("convert", source).expect(1, "pytorch_model.bin.index.json", "x-2.bin", "missing")
    write(os.path.join(source, "x-2.bin"), shard(3))
    tool.run("convert", source).expect(0)
    check(os.path.exists(os.path.join(source + ".lmc", "x-2.bin.lmc")), "x-2.bin was copied")
    check_restores(tool, source, source + ".lmc")
    os.unlink(os.path.join(source + ".lmc", "x-2.bin.lmc"))
    with Untouched(directory):
        tool.run("restore", source + ".lmc", "-o", source + ".back").expect(1, "x-2.bin", "missing")
        tool.run("verify", source + ".lmc").expect(1, "x-2.bin", "missing")
    write(name, index("../x-1.bin"))
    with Untouched(directory):
        tool.run("convert", source, "-f").expect(1, "plain name")


def test_other_indexes_are_copied(tool, directory):
    """One whose .bin files were all left out, and other files. An index that is restored is checked as well."""
    source = small_tree(os.path.join(directory, "m"))
    write(os.path.join(source, "pytorch_model.bin.index.json"), index("missing.bin", "missing-2.bin"))
    for name in ("model.safetensors.index.json.bak", "model.safetensors.json"):
        write(os.path.join(source, name), index("../missing"))
    tool.run("convert", source).expect(0)
    check_archived(tool, source, source + ".lmc")
    write(os.path.join(source + ".lmc", NAMES[0]), index("../../missing"))
    with Untouched(directory, "restore"):
        tool.run("restore", source + ".lmc", "-o", source + ".back").expect(1, NAMES[0], "plain name")
        tool.run("verify", source + ".lmc").expect(1, NAMES[0], "plain name")
    remove(source)
