"""Programs and libraries of Windows (PE) and macOS (Mach-O): what a loader reads of them. For those of Linux there is
readelf."""

import hashlib
import struct

# Mach-O: load commands
LOAD_DYLIB, ID_DYLIB, RPATH = {0xC, 0x80000018}, 0xD, 0x8000001C
CODE_SIGNATURE, BUILD_VERSION = 0x1D, 0x32
DYLD_INFO, EXPORTS_TRIE = {0x22, 0x80000022}, 0x80000033
MACOS = 1
CODE_DIRECTORY, SHA256, AD_HOC = 0xFADE0C02, 2, 2


def text_at(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


class MachO:
    """`processor`, `kind`, `least` (the version of macOS), `name` (of a library), `needs`, `run_paths`, `exports`,
    `signature` (None, or bytes)."""

    def __init__(self, data):
        magic, processor, _, kind, count = struct.unpack_from("<5I", data)
        assert magic == 0xFEEDFACF
        self.data = data
        self.processor = {0x0100000C: "arm64", 0x01000007: "x86_64"}[processor]
        self.kind = {2: "program", 6: "library"}[kind]
        self.least = self.name = self.signature = None
        self.needs, self.run_paths, self.exports = [], [], []
        offset = 32
        for _ in range(count):
            command, nbytes = struct.unpack_from("<2I", data, offset)
            self._read(command, offset)
            offset += nbytes

    def _read(self, command, at):
        first, second = struct.unpack_from("<2I", self.data, at + 8)
        if command in LOAD_DYLIB:
            self.needs.append(text_at(self.data, at + first))
        elif command == ID_DYLIB:
            self.name = text_at(self.data, at + first)
        elif command == RPATH:
            self.run_paths.append(text_at(self.data, at + first))
        elif command == BUILD_VERSION:
            assert first == MACOS
            self.least = (second >> 16, second >> 8 & 255)
        elif command == CODE_SIGNATURE:
            self.signature = self.data[first:first + second]
            self.signature_at = first
        elif command == EXPORTS_TRIE and second:
            self._read_exports(first, 0, b"")
        elif command in DYLD_INFO:
            start, nbytes = struct.unpack_from("<2I", self.data, at + 40)
            if nbytes:
                self._read_exports(start, 0, b"")

    def _number(self, at):
        """A number in ULEB128, and where it ends."""
        value = shift = 0
        while True:
            value |= (self.data[at] & 127) << shift
            shift += 7
            at += 1
            if self.data[at - 1] < 128:
                return value, at

    def _read_exports(self, start, node, prefix):
        nbytes, at = self._number(start + node)
        if nbytes:
            self.exports.append(prefix.decode())
        at += nbytes
        children, at = self.data[at], at + 1
        for _ in range(children):
            end = self.data.index(b"\0", at)
            child, following = self._number(end + 1)
            self._read_exports(start, child, prefix + self.data[at:end])
            at = following

    def signature_faults(self):
        """A line for each thing that keeps the system from running the file with its ad-hoc signature."""
        magic, _, count = struct.unpack_from(">3I", self.signature)
        assert magic == 0xFADE0CC0
        offsets = [struct.unpack_from(">2I", self.signature, 12 + 8 * i)[1] for i in range(count)]
        directories = [offset for offset in offsets
                       if struct.unpack_from(">I", self.signature, offset)[0] == CODE_DIRECTORY]
        if len(directories) != 1:
            yield "%d code directories" % len(directories)
        for offset in directories:
            directory = self.signature[offset:]
            _, _, _, flags, hashes, _, _, slots, limit = struct.unpack_from(">9I", directory)
            hash_nbytes, hash_kind, _, page_bits = struct.unpack_from("4B", directory, 36)
            if not flags & AD_HOC or hash_kind != SHA256 or limit != self.signature_at:
                yield "flags %x, hash %d, signed up to %d" % (flags, hash_kind, limit)
            if slots != -(-limit >> page_bits):
                yield "%d pages" % slots
            for slot in range(slots):
                page = self.data[slot << page_bits:min(slot + 1 << page_bits, limit)]
                at = hashes + slot * hash_nbytes
                if hashlib.sha256(page).digest()[:hash_nbytes] != directory[at:at + hash_nbytes]:
                    yield "page %d has another hash" % slot


class PE:
    """`processor`, `kind`, `characteristics` (of the optional header), `needs`, `exports`."""

    def __init__(self, data):
        assert data[:2] == b"MZ"
        self.data = data
        (head,) = struct.unpack_from("<I", data, 0x3C)
        assert data[head:head + 4] == b"PE\0\0"
        processor, sections, _, _, _, optional_nbytes, flags = struct.unpack_from("<2H3I2H", data, head + 4)
        self.processor = {0x8664: "x86_64", 0xAA64: "arm64"}[processor]
        self.kind = "library" if flags & 0x2000 else "program"
        optional = head + 24
        assert struct.unpack_from("<H", data, optional)[0] == 0x20B
        (self.characteristics,) = struct.unpack_from("<H", data, optional + 70)
        self.sections = [struct.unpack_from("<4I", data, optional + optional_nbytes + 40 * i + 8)
                         for i in range(sections)]
        (count,) = struct.unpack_from("<I", data, optional + 108)
        folders = [struct.unpack_from("<2I", data, optional + 112 + 8 * i) for i in range(count)]
        self.exports = self._read_exports(folders[0][0]) if folders[0][1] else []
        self.needs = self._read_needs(folders[1][0], 20, 12) if folders[1][1] else []
        self.needs += self._read_needs(folders[13][0], 32, 4) if folders[13][1] else []

    def _place(self, address):
        for nbytes, start, stored_nbytes, place in self.sections:
            if start <= address < start + max(nbytes, stored_nbytes):
                return place + address - start
        raise ValueError("no section has address %x" % address)

    def _read_exports(self, address):
        (count,) = struct.unpack_from("<I", self.data, self._place(address) + 24)
        (names,) = struct.unpack_from("<I", self.data, self._place(address) + 32)
        pointers = struct.unpack_from("<%dI" % count, self.data, self._place(names)) if count else ()
        return [text_at(self.data, self._place(pointer)) for pointer in pointers]

    def _read_needs(self, address, entry_nbytes, name_at):
        at = self._place(address)
        needs = []
        while any(self.data[at:at + entry_nbytes]):
            (name,) = struct.unpack_from("<I", self.data, at + name_at)
            needs.append(text_at(self.data, self._place(name)))
            at += entry_nbytes
        return needs
