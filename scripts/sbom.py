#!/usr/bin/env python3
"""Prints an SBOM (SPDX 2.3, JSON) of the files of a release: what they are, and whose code is compiled into them.

    SOURCE_DATE_EPOCH=SECONDS python3 scripts/sbom.py FOLDER [INCLUDE_DIR...] >FILE

FOLDER has the files; those of an SBOM and checksums are left out. Versions of LMC, cJSON and tools are read from the
tree, those of other libraries from their headers in the first INCLUDE_DIR that has them, as a compiler would.
"""
import datetime
import hashlib
import json
import os
import re
import sys
import uuid
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEFT_OUT = (".spdx.json", "SHA256SUMS")
SOURCE_ENDINGS = (".tar.gz", ".tar.xz", ".dsc")

# A library that is compiled into a wheel. `numbers`: what its header calls the parts of its version. `fetched`: the
# Python package with its source, in lmc_dependency_sources of scripts/setup.sh.
Library = namedtuple("Library", "name license home header numbers fetched cpe")
ZSTD = Library("zstd", "BSD-3-Clause", "https://github.com/facebook/zstd", "zstd.h",
               "ZSTD_VERSION_MAJOR ZSTD_VERSION_MINOR ZSTD_VERSION_RELEASE", "zstandard", "facebook:zstandard")
SQLITE = Library("SQLite", "blessing", "https://sqlite.org", "sqlite3.h", "SQLITE_VERSION", "sqlean.py",
                 "sqlite:sqlite")
XXHASH = Library("xxHash", "BSD-2-Clause", "https://github.com/Cyan4973/xxHash", "xxhash.h",
                 "XXH_VERSION_MAJOR XXH_VERSION_MINOR XXH_VERSION_RELEASE", None, None)
FUSE = Library("libfuse", "LGPL-2.1-only", "https://github.com/libfuse/libfuse", "fuse3/fuse_common.h",
               "FUSE_MAJOR_VERSION FUSE_MINOR_VERSION", None, None)


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def found_in(pattern, *path):
    found = re.search(pattern, text_of(*path), re.M)
    if not found:
        raise SystemExit(f"sbom.py: {os.path.join(*path)} does not match {pattern}")
    return found.groups() if len(found.groups()) > 1 else found.group(1)


def lmc_version():
    return found_in(r"^project\(lmc VERSION ([0-9.]+)", ROOT, "CMakeLists.txt")


def header_version(library, include_dirs):
    """None if no directory has the header."""
    for folder in include_dirs:
        if os.path.exists(os.path.join(folder, library.header)):
            return ".".join(found_in(rf'^#define {name}\s+"?([0-9.]+)', folder, library.header)
                            for name in library.numbers.split())
    return None


# ---- packages: each is a dictionary of SPDX ----

def package(name, version, license_id, location, purpose, **fields):
    spdx_id = "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
    return dict({"name": name, "SPDXID": spdx_id, "versionInfo": version, "downloadLocation": location,
                 "filesAnalyzed": False, "licenseConcluded": license_id, "licenseDeclared": license_id,
                 "copyrightText": "NOASSERTION", "supplier": "NOASSERTION", "primaryPackagePurpose": purpose}, **fields)


def named_by(purl=None, cpe=None, version=None):
    """By what names databases of vulnerabilities know a package."""
    names = []
    if purl:
        names.append({"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl})
    if cpe:
        names.append({"referenceCategory": "SECURITY", "referenceType": "cpe23Type",
                      "referenceLocator": f"cpe:2.3:a:{cpe}:{version}:*:*:*:*:*:*:*"})
    return names


def lmc_package():
    version = lmc_version()
    return package("lmc", version, "Apache-2.0", "NOASSERTION", "LIBRARY", copyrightText="The LMC authors",
                   supplier="Organization: The LMC authors",
                   externalRefs=named_by(f"pkg:pypi/lmcodec@{version}"))


def cjson_package():
    version = found_in(r"^# .*: cJSON (\S+)$", ROOT, "third_party", "cjson", "README.md")
    release = version.partition("-")[0]
    purl = "pkg:deb/debian/cjson@" + version.replace("+", "%2B") + "?arch=source"
    return package("cJSON", version, "MIT", "https://github.com/DaveGamble/cJSON", "SOURCE",
                   sourceInfo=f"release {release} with the patches of Debian's source package cjson {version}",
                   externalRefs=named_by(purl, "davegamble:cjson", release))


def library_package(library, include_dirs):
    version = header_version(library, include_dirs)
    if version is None:
        raise SystemExit(f"sbom.py: no directory of {include_dirs} has {library.header}")
    fields = {}
    if library.fetched:
        source, checksum = found_in(rf'^(?:\s*lmc_wanted=")?{re.escape(library.fetched)} (\S+) ([0-9a-f]{{64}})',
                                    ROOT, "scripts", "setup.sh")
        fields["sourceInfo"] = (f"from the source archive of the Python package {library.fetched} {source}, whose "
                                f"SHA-256 is {checksum}")
    if library.cpe:
        fields["externalRefs"] = named_by(cpe=library.cpe, version=version)
    return package(library.name, version, library.license, library.home, "LIBRARY", **fields)


def zig_package():
    version = found_in(r"\bziglang==(\S+)", ROOT, "scripts", "setup.sh")
    return package("zig", version, "MIT", "https://ziglang.org", "APPLICATION",
                   comment="The compiler. Files for Windows also contain what MinGW-w64 links into every program.",
                   externalRefs=named_by(f"pkg:pypi/ziglang@{version}"))


def release_package(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        checksum = hashlib.sha256(file.read()).hexdigest()
    purpose = "SOURCE" if name.endswith(SOURCE_ENDINGS) else "INSTALL"
    return package(name, lmc_version(), "Apache-2.0", "NOASSERTION", purpose, packageFileName=name,
                   checksums=[{"algorithm": "SHA256", "checksumValue": checksum}])


# ---- the document ----

def relation(first, kind, second):
    return {"spdxElementId": first["SPDXID"], "relationshipType": kind, "relatedSpdxElement": second["SPDXID"]}


def wheel_parts(wheels, cjson, include_dirs):
    """The packages that wheels contain or need, and how."""
    inside = [library_package(library, include_dirs) for library in (SQLITE, XXHASH, ZSTD)]
    zig = zig_package()
    related = [relation(wheel, "CONTAINS", part) for wheel in wheels for part in [cjson, *inside]]
    related += [relation(zig, "BUILD_TOOL_OF", wheel) for wheel in wheels]
    parts = [*inside, zig]
    for_linux = [wheel for wheel in wheels if "linux" in wheel["name"]]
    if for_linux and header_version(FUSE, include_dirs):  # loaded by `lmc-st mount`, which a wheel may lack
        fuse = library_package(FUSE, include_dirs)
        parts.append(fuse)
        related += [relation(fuse, "OPTIONAL_DEPENDENCY_OF", wheel) for wheel in for_linux]
    return parts, related


def document(folder, include_dirs, created):
    lmc, cjson = lmc_package(), cjson_package()
    names = sorted(name for name in os.listdir(folder) if not name.endswith(LEFT_OUT))
    files = [release_package(folder, name) for name in names]
    head = {"SPDXID": "SPDXRef-DOCUMENT"}
    related = [relation(head, "DESCRIBES", described) for described in [lmc, *files]]
    related += [relation(file, "GENERATED_FROM", lmc) for file in files]
    related.append(relation(lmc, "CONTAINS", cjson))
    parts, wheels = [], [file for file in files if file["name"].endswith(".whl")]
    if wheels:
        parts, wheel_related = wheel_parts(wheels, cjson, include_dirs)
        related += wheel_related
    elif any(file["name"].endswith(".deb") for file in files):
        parts = [library_package(XXHASH, include_dirs)]
    related += [relation(part, "BUILD_DEPENDENCY_OF", lmc) for part in parts if part["name"] == XXHASH.name]
    content = dict(head, spdxVersion="SPDX-2.3", dataLicense="CC0-1.0", name=f"lmc-{lmc['versionInfo']}",
                   creationInfo={"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 "creators": [f"Tool: lmc-sbom-{lmc['versionInfo']}"]},
                   packages=[lmc, cjson, *parts, *files], relationships=related)
    space = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return dict(content, documentNamespace=f"urn:uuid:{space}")


def main():
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]) or not os.environ.get("SOURCE_DATE_EPOCH", "").isdigit():
        print("usage: SOURCE_DATE_EPOCH=SECONDS sbom.py FOLDER [INCLUDE_DIR...]", file=sys.stderr)
        return 2
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    print(json.dumps(document(sys.argv[1], sys.argv[2:], created), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
