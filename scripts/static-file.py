"""Looks at the file that scripts/build-static made: FILE LIMIT_BYTES PLACE.

Owns what it has to be: static, for kernels from 5.15 on, without the path of the place where it was built, within its size
budget. Reads the ELF file itself. The size is that of the file as it is installed (stat), nothing packed, position
independent, unwinding kept; the table says what its bytes are for.
"""
import struct
import sys

KERNEL = (5, 15, 0)
PT_INTERP, PT_NOTE, NT_GNU_ABI_TAG = 3, 4, 1
SHT_NOBITS = 8
KINDS = {
    'code': ('.text', '.init', '.fini', '.iplt', '__libc_freeres_fn'),
    'tables for unwinding': ('.eh_frame', '.eh_frame_hdr', '.gcc_except_table'),
    'constants': ('.rodata',),
    'data with addresses': ('.data.rel.ro', '.got', '.got.plt', '.relr.dyn', '.rela.dyn'),
}


def main() -> None:
    path, limit, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path, 'rb') as file:
        data = file.read()
    if data[:5] != b'\x7fELF\x02':
        sys.exit(f'{path}: not a 64-bit ELF file')
    segments = list(read_segments(data))
    # A static executable names no interpreter, and with it no library.
    if any(kind == PT_INTERP for kind, _, _ in segments):
        sys.exit(f'{path} wants a dynamic loader: it is not static')
    kernel = oldest_kernel(data, segments)
    if kernel > KERNEL:
        sys.exit(f'{path} asks for Linux {dotted(kernel)}; it has to run on {dotted(KERNEL)}')
    if place.encode() + b'/' in data:
        sys.exit(f'{path} names {place}: another directory would make another file')
    print(f'{path} is static; the oldest kernel that it accepts is {dotted(kernel)} (promised: {dotted(KERNEL)})')
    show_sizes(data, limit)
    if len(data) > limit:
        sys.exit(f'{path} has {len(data):,} bytes; the budget is {limit:,}')


def read_segments(data: bytes):
    offset, = struct.unpack_from('<Q', data, 32)
    size, count = struct.unpack_from('<HH', data, 54)
    for n in range(count):
        kind, _, start, _, _, length = struct.unpack_from('<IIQQQQ', data, offset + n * size)
        yield kind, start, length


def oldest_kernel(data: bytes, segments) -> tuple:
    """What `readelf -n` calls the ABI version tag; (0, 0, 0) where there is none."""
    for kind, start, length in segments:
        at = start
        while kind == PT_NOTE and at < start + length:
            name_bytes, text_bytes, note = struct.unpack_from('<III', data, at)
            name, text = at + 12, at + 12 + (name_bytes + 3 & ~3)
            if note == NT_GNU_ABI_TAG and data[name:name + 4] == b'GNU\0':
                return struct.unpack_from('<III', data, text + 4)
            at = text + (text_bytes + 3 & ~3)
    return 0, 0, 0


def show_sizes(data: bytes, limit: int) -> None:
    sizes = dict.fromkeys(KINDS, 0)
    for name, size in sections(data):
        for kind, names in KINDS.items():
            sizes[kind] += size if name in names else 0
    sizes['the rest'] = len(data) - sum(sizes.values())
    for kind, size in sizes.items():
        print(f'  {kind:<22}{size:>12,}')
    share = 100 * len(data) / limit
    print(f'  {"file, bytes":<22}{len(data):>12,}  {share:.1f} % of the budget of {limit:,}')


def sections(data: bytes):
    offset, = struct.unpack_from('<Q', data, 40)
    size, count, names_at = struct.unpack_from('<HHH', data, 58)
    rows = [struct.unpack_from('<IIQQQQ', data, offset + n * size) for n in range(count)]
    names = rows[names_at][4] if rows else 0
    for name, kind, _, _, _, length in rows:
        start = names + name
        if kind != SHT_NOBITS:
            yield data[start:data.index(b'\0', start)].decode(), length


def dotted(version: tuple) -> str:
    return '.'.join(map(str, version))


main()
