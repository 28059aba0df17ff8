"""Installs the packages of clients into target/compat, once. Runs in the directory of the repository."""
import os, shutil, subprocess, sys

COMPAT = "target/compat"


def install(name, wanted, commands):
    """Runs the commands once in target/compat/NAME, unless that has what is wanted."""
    folder = os.path.join(COMPAT, name)
    stamp = os.path.join(folder, "installed")
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    for command in commands:
        if subprocess.run(command).returncode:
            print(f"missing: the packages of {folder} cannot be installed. Does this machine reach the registries of "
                  f"pip and npm?\n{wanted}", file=sys.stderr)
            sys.exit(77)
    with open(stamp, "w") as file:
        file.write(wanted)


def install_python(name, packages):
    folder = os.path.join(COMPAT, name)
    pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--retries", "1", "--disable-pip-version-check"]
    environment = [sys.executable, "-m", "venv", folder]
    install(name, "\n".join(packages), [environment, [*pip, *packages]])
