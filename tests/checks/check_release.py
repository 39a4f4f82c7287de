"""scripts/release.sh refuses what it does not know, and scripts/sbom.py describes the files of a release: what it
writes is SPDX 2.3, has the versions of the tree and of headers, and is the same each time."""

import hashlib
import json
import os
import re
import sys
import tempfile

from tree import run

RELEASE, SBOM = "scripts/release.sh", "scripts/sbom.py"
TIME, TIME_TEXT = "1700000000", "2023-11-14T22:13:20Z"
WHEELS = ["lmcodec-1-py3-none-manylinux2014_x86_64.whl", "lmcodec-1-py3-none-win_amd64.whl"]
FILES = ["lmc-1.tar.gz", "lmc-st_1_amd64.deb", *WHEELS]
HEADERS = {
    "zstd.h": "#define ZSTD_VERSION_MAJOR    1\n#define ZSTD_VERSION_MINOR    2\n#define ZSTD_VERSION_RELEASE  3\n",
    "sqlite3.h": '#define SQLITE_VERSION        "4.5.6"\n',
    "xxhash.h": "#define XXH_VERSION_MAJOR    7\n#define XXH_VERSION_MINOR    8\n#define XXH_VERSION_RELEASE  9\n",
    "fuse3/fuse_common.h": "#define FUSE_MAJOR_VERSION 3\n#define FUSE_MINOR_VERSION 14\n",
}
HEADER_VERSIONS = {"zstd": "1.2.3", "SQLite": "4.5.6", "xxHash": "7.8.9", "libfuse": "3.14"}
DOCUMENT_FIELDS = {"SPDXID", "spdxVersion", "dataLicense", "name", "documentNamespace", "creationInfo", "packages",
                   "relationships"}
PACKAGE_FIELDS = {"SPDXID", "name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared",
                  "copyrightText"}
IN_EVERY_WHEEL = {"cJSON", "SQLite", "xxHash", "zstd"}


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def tree_versions(tree):
    setup = tree.text("scripts/setup.sh")
    return {
        "lmc": re.search(r"project\(lmc VERSION ([0-9.]+)", tree.text("CMakeLists.txt")).group(1),
        "cJSON": re.search(r"cJSON (\S+)", tree.text("third_party/cjson/README.md")).group(1),
        "zig": re.search(r"ziglang==(\S+)", setup).group(1),
    }


def wrong_forms(document):
    """What the specification does not allow."""
    if DOCUMENT_FIELDS - document.keys():
        yield f"lacks {sorted(DOCUMENT_FIELDS - document.keys())}"
        return
    if (document["spdxVersion"], document["SPDXID"]) != ("SPDX-2.3", "SPDXRef-DOCUMENT"):
        yield f"is {document['spdxVersion']}, {document['SPDXID']}"
    if document["creationInfo"]["created"] != TIME_TEXT:
        yield f"was created {document['creationInfo']['created']}, not {TIME_TEXT}"
    ids = [document["SPDXID"]] + [package["SPDXID"] for package in document["packages"]]
    for package in document["packages"]:
        if PACKAGE_FIELDS - package.keys():
            yield f"{package['SPDXID']} lacks {sorted(PACKAGE_FIELDS - package.keys())}"
    for name in ids:
        if ids.count(name) > 1 or not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name):
            yield f"{name} is not an identifier of one package"
    for relation in document["relationships"]:
        for name in (relation["spdxElementId"], relation["relatedSpdxElement"]):
            if name not in ids:
                yield f"{name} in a relationship is no package"


def wrong_content(document, wanted):
    packages = {package["name"]: package for package in document["packages"]}
    for name, version in wanted.items():
        if packages.get(name, {}).get("versionInfo") != version:
            yield f"does not have {name} {version}"
    for name in FILES:
        checksum = hashlib.sha256(name.encode()).hexdigest()
        if {"algorithm": "SHA256", "checksumValue": checksum} not in packages.get(name, {}).get("checksums", []):
            yield f"does not have the checksum of {name}"
    names = {package["SPDXID"]: name for name, package in packages.items()}
    for wheel in WHEELS:
        inside = {names[relation["relatedSpdxElement"]] for relation in document["relationships"]
                  if relation["relationshipType"] == "CONTAINS" and names.get(relation["spdxElementId"]) == wheel}
        if inside != IN_EVERY_WHEEL:
            yield f"says that {wheel} contains {sorted(inside)}"


def check_sbom(tree, folder):
    files, headers = os.path.join(folder, "files"), os.path.join(folder, "headers")
    for name in FILES + ["SHA256SUMS"]:
        write(files, name, name)
    for name, text in HEADERS.items():
        write(headers, name, text)
    environment = dict(os.environ, SOURCE_DATE_EPOCH=TIME)
    command = [sys.executable, tree.path(SBOM), files, os.path.join(folder, "nothing"), headers]
    status, text = run(*command, env=environment)
    if status != 0:
        yield f"{SBOM}: {text.strip()}"
        return
    if run(*command, env=environment) != (status, text):
        yield f"{SBOM}: writes something else the second time"
    document = json.loads(text)
    faults = list(wrong_forms(document)) or wrong_content(document, {**tree_versions(tree), **HEADER_VERSIONS})
    for fault in faults:
        yield f"{SBOM}: its document {fault}"
    status, text = run(*command[:-1], env=environment)
    if status == 0 or "no directory" not in text:
        yield f"{SBOM}: without headers, status {status}: {text.strip()}"


def check(tree):
    status, text = run("sh", "-n", tree.path(RELEASE))
    if status != 0:
        yield f"{RELEASE}: {text.strip()}"
    for arguments in (["--nothing"], ["--only"], ["--only", "source,nothing"], ["HEAD", "HEAD"]):
        status, text = run("sh", tree.path(RELEASE), *arguments)
        if status != 2 or not text.startswith("usage: "):
            yield f"{RELEASE} {' '.join(arguments)}: status {status}: {text.strip()}"
    status, text = run(sys.executable, tree.path(SBOM))
    if status != 2 or not text.startswith("usage: "):
        yield f"{SBOM} without a folder: status {status}: {text.strip()}"
    with tempfile.TemporaryDirectory(prefix="lmc-check-") as folder:
        yield from check_sbom(tree, folder)
