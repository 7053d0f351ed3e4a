"""Compiles each program beside this file and expects that the first error has the words after its `// error:`.

usage: check_errors.py COMPILE_COMMANDS TARGET
    flags and compiler are those of a file of TARGET in COMPILE_COMMANDS. If it has no precompiled header, wrappers.h is
    compiled once, before the programs.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from compile_command import command_of

FOLDER = pathlib.Path(__file__).parent


def first_error(command, program, header):
    done = subprocess.run([*command, "-fsyntax-only", "-Wfatal-errors", "-include", str(header), str(program)],
                          timeout=600, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = [line for line in done.stderr.splitlines() if "error: " in line]
    return lines[0] if done.returncode != 0 and lines else None


def main():
    command = command_of(sys.argv[1], sys.argv[2])
    programs = sorted(FOLDER.glob("*.cpp"))
    mistakes = [] if programs else ["no program was found, so nothing was checked"]
    with tempfile.TemporaryDirectory(prefix="lockstep-compile-") as folder:
        header = pathlib.Path(folder) / "wrappers.h"
        header.write_text((FOLDER / "wrappers.h").read_text())
        if "-include" not in command:
            subprocess.run([*command, "-x", "c++-header", str(header), "-o", f"{header}.gch"], timeout=600, check=True)
        for program in programs:
            words = re.match(r"// error: (.*)", program.read_text()).group(1)
            error = first_error(command, program, header)
            print(f"{program.name}: {error}", flush=True)
            if error is None:
                mistakes.append(f"{program.name} compiles, or no error was printed")
            elif words not in error:
                mistakes.append(f"{program.name}: the first error does not say: {words}")
    sys.exit("\n".join(mistakes) or 0)


main()
