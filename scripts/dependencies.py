"""Describes the crates in a binary: dependencies.py BINARY TARGET DIRECTORY.

Writes DIRECTORY/sbom.cdx.json, a software bill of materials in CycloneDX 1.5, and DIRECTORY/THIRD-PARTY-LICENSES.txt
with the licence texts of everything that is linked. The same commit and binary give the same files.
cargo-cyclonedx 0.5.9 is not used: it writes paths of the build machine and random numbers, lists crates that only
other members of the workspace enable, and lists neither the C library nor Rust's.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = 'nanoclaw'
# Names of files with a licence, in a crate's directory and in the C sources that it contains.
LICENCE_FILE = re.compile(r'(licen[cs]e|copying|notice|unlicense|copyright)', re.IGNORECASE)
LOCKED = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"')
CONSOLE = pathlib.Path('src/console/vendor/LICENCES.txt')
LGPL = pathlib.Path('/usr/share/common-licenses/LGPL-2.1')


def main() -> None:
    binary, target, directory = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    metadata = json.loads(run('cargo', 'metadata', '--format-version=1', '--locked', f'--filter-platform={target}'))
    built, linked = crates_of(target, 'normal,build'), crates_of(target, 'normal,no-proc-macro')
    packages = sorted((p for p in metadata['packages'] if key(p) in built), key=key)
    bill = bill_of_materials(packages, linked, metadata['resolve']['nodes'], binary)
    (directory / 'sbom.cdx.json').write_text(json.dumps(bill, indent=1, ensure_ascii=False) + '\n')
    text = licences([p for p in packages if key(p) in linked and p['source']])
    (directory / 'THIRD-PARTY-LICENSES.txt').write_text(text)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def key(package: dict) -> tuple:
    return package['name'], package['version']


def crates_of(target: str, edges: str) -> set:
    """The crates of the binary. `cargo metadata` alone would add what other members of the workspace enable."""
    lines = run('cargo', 'tree', '--locked', f'--package={ROOT}', f'--edges={edges}', f'--target={target}',
                '--prefix=none', '--format={p}').splitlines()
    words = (line.split() for line in lines if line)
    return {(name, version.removeprefix('v')) for name, version, *_ in words}


def bill_of_materials(packages: list, linked: set, nodes: list, binary: pathlib.Path) -> dict:
    # tomllib needs Python 3.11.
    lock = pathlib.Path('Cargo.lock').read_text()
    sums = {found[:2]: found[2] for found in LOCKED.findall(lock)}
    ids = {p['id']: reference(p) for p in packages}
    components = [component(p, sums.get(key(p)), key(p) in linked) for p in packages if p['name'] != ROOT]
    root = component(next(p for p in packages if p['name'] == ROOT), None, True)
    root |= {'type': 'application', 'hashes': [{'alg': 'SHA-256', 'content': sha256(binary)}]}
    del root['scope']
    time = datetime.datetime.fromtimestamp(int(os.environ['SOURCE_DATE_EPOCH']), datetime.timezone.utc)
    bill = {'bomFormat': 'CycloneDX', 'specVersion': '1.5', 'version': 1, 'serialNumber': '',
            'metadata': {'timestamp': time.strftime('%Y-%m-%dT%H:%M:%SZ'), 'component': root},
            'components': components + runtimes(),
            'dependencies': [{'ref': ids[n['id']], 'dependsOn': sorted({ids[d] for d in n['dependencies'] if d in ids})}
                             for n in sorted(nodes, key=lambda n: n['id']) if n['id'] in ids]}
    bill['serialNumber'] = f'urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(bill))}'
    return bill


def reference(package: dict) -> str:
    return f'pkg:cargo/{package["name"]}@{package["version"]}'


def component(package: dict, checksum, is_linked: bool) -> dict:
    found = {'type': 'library', 'bom-ref': reference(package), 'name': package['name'], 'version': package['version'],
             'scope': 'required' if is_linked else 'excluded', 'purl': reference(package)}
    if package['license']:
        # Old manifests separate alternatives with a slash.
        found['licenses'] = [{'expression': re.sub(r'\s*/\s*', ' OR ', package['license'])}]
    if checksum:
        found['hashes'] = [{'alg': 'SHA-256', 'content': checksum}]
    if package['repository'] and package['source']:
        found['externalReferences'] = [{'type': 'vcs', 'url': package['repository']}]
    return found


def runtimes() -> list:
    """What the linker adds to every static binary."""
    libc = os.confstr('CS_GNU_LIBC_VERSION').split()[1]
    rust = run('rustc', '--version').split()[1]
    return [{'type': 'library', 'bom-ref': f'pkg:generic/{name}@{version}', 'name': name, 'version': version,
             'purl': f'pkg:generic/{name}@{version}', 'scope': 'required', 'licenses': [{'expression': licence}]}
            for name, version, licence in (('glibc', libc, 'LGPL-2.1-or-later'), ('rust-std', rust, 'MIT OR Apache-2.0'))]


def sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def licences(packages: list) -> str:
    """Every licence text once, under the crates that carry it."""
    texts: dict = {}
    for package in packages:
        name = f'{package["name"]} {package["version"]} ({package["license"]})'
        for text in licence_texts(pathlib.Path(package['manifest_path']).parent) or ['']:
            texts.setdefault(' '.join(text.split()), (text, []))[1].append(name)
    blocks = ['The binary of NanoClaw contains these libraries under these licences.\n']
    for text, names in sorted(texts.values(), key=lambda pair: (not pair[0], pair[1])):
        blocks.append('\n'.join(names) + '\n\n' + (text or 'These crates contain no text of their licence.\n'))
    blocks.append('The web console contains these libraries.\n\n' + CONSOLE.read_text())
    blocks.append('The GNU C library (LGPL-2.1-or-later). scripts/build-static in the source of NanoClaw links the '
                  'binary\nagain, also with a changed library.\n\n' + (LGPL.read_text() if LGPL.exists() else ''))
    return ('\n' + '=' * 80 + '\n').join(blocks)


def licence_texts(directory: pathlib.Path) -> list:
    files = sorted(p for p in directory.rglob('*') if p.is_file() and LICENCE_FILE.match(p.name)
                   and p.suffix in ('', '.md', '.txt', '.MIT', '.APACHE') and p.stat().st_size < 100_000)
    return [file.read_text(errors='replace').strip() + '\n' for file in files]


main()
