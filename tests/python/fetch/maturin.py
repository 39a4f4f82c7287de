"""maturin.py - stands in for the build backend of safetensors: pip keeps a source archive only once its metadata are
made, and the real one wants a Rust compiler for that."""
import os
import re


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    version = re.search(r'^version *= *"(.*)"', open(find("Cargo.toml")).read(), re.M).group(1)
    name = "safetensors-%s.dist-info" % version
    os.makedirs(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: safetensors\nVersion: %s\n" % version)
    return name


def find(name):
    """The first file of this name in the unpacked archive, where pip starts the backend."""
    for folder, _, files in os.walk("."):
        if name in files and "python" in folder:
            return os.path.join(folder, name)
    return name
