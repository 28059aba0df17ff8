"""Checks the output of scripts/build-static: static-file.py FILE MAX_BYTES BUILD_DIRECTORY.

The file must be a static ELF executable that runs on Linux 5.15, must not contain the path of the build directory,
and must not be larger than MAX_BYTES.
"""
import struct
import sys

KERNEL = (5, 15, 0)
PT_INTERP, PT_NOTE, NT_GNU_ABI_TAG = 3, 4, 1


def main() -> None:
    path, max_bytes, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path, 'rb') as file:
        data = file.read()
    if data[:5] != b'\x7fELF\x02':
        sys.exit(f'{path}: not a 64-bit ELF file')
    segments = list(read_segments(data))
    # A static executable names no interpreter and therefore no library.
    if any(kind == PT_INTERP for kind, _, _ in segments):
        sys.exit(f'{path} needs a dynamic loader: it is not static')
    kernel = oldest_kernel(data, segments)
    if kernel > KERNEL:
        sys.exit(f'{path} needs Linux {dotted(kernel)}; it must run on {dotted(KERNEL)}')
    if directory.encode() + b'/' in data:
        sys.exit(f'{path} contains {directory}: a build in another directory would differ')
    print(f'{path} is static; oldest kernel {dotted(kernel)} (limit {dotted(KERNEL)}); '
          f'{len(data):,} bytes (limit {max_bytes:,})')
    if len(data) > max_bytes:
        sys.exit(f'{path} is too large')


def read_segments(data: bytes):
    offset, = struct.unpack_from('<Q', data, 32)
    size, count = struct.unpack_from('<HH', data, 54)
    for n in range(count):
        kind, _, start, _, _, length = struct.unpack_from('<IIQQQQ', data, offset + n * size)
        yield kind, start, length


def oldest_kernel(data: bytes, segments) -> tuple:
    """The version in the ABI note (`readelf -n`: ABI version tag); (0, 0, 0) without a note."""
    for kind, start, length in segments:
        at = start
        while kind == PT_NOTE and at < start + length:
            name_bytes, text_bytes, note = struct.unpack_from('<III', data, at)
            name, text = at + 12, at + 12 + (name_bytes + 3 & ~3)
            if note == NT_GNU_ABI_TAG and data[name:name + 4] == b'GNU\0':
                return struct.unpack_from('<III', data, text + 4)
            at = text + (text_bytes + 3 & ~3)
    return 0, 0, 0


def dotted(version: tuple) -> str:
    return '.'.join(map(str, version))


main()
