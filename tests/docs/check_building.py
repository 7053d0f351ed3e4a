"""Follows "From a project of your own" in docs/building.md: writes its CMakeLists.txt and main.cpp and runs its commands.

What `cmake --build` would compile of Lockstep anew is taken from the build at hand: the archives that the program links, and
the launcher. The program itself is compiled and linked by the commands that the page's project has for it.

usage: check_building.py SOURCE_DIR BUILD_DIR [-DVARIABLE=VALUE...]
    BUILD_DIR: a build of SOURCE_DIR; the variables are those of the configuration at hand
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from building_page import PROGRAM, blocks, check_ranks, run

LAUNCHER = "lockstep/bin/lockstep"


def take_from(build, folder, path):
    """`path` of the page's build folder: what the build at hand has in its place."""
    there = build / pathlib.Path(path).relative_to("lockstep")
    here = folder / path
    if not there.exists():
        sys.exit(f"the page's project builds {path}, and there is no {there}")
    here.parent.mkdir(parents=True, exist_ok=True)
    here.symlink_to(there)


def build_program(folder, build):
    """What `cmake --build` does, with Lockstep's own parts taken from `build`."""
    commands = subprocess.run(["ninja", "-t", "commands", "all"], cwd=folder, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.splitlines()
    if not any(f" -o {LAUNCHER} " in command for command in commands):
        sys.exit(f"`cmake --build` does not build {LAUNCHER}, which the page runs")
    own = [command for command in commands if f"CMakeFiles/{PROGRAM}.dir/" in command]
    link = next(command for command in own if f" -o {PROGRAM} " in command)
    for word in dict.fromkeys(shlex.split(link)):
        if word.startswith("lockstep/") and word.endswith((".a", ".so")):
            take_from(build, folder, word)
    take_from(build, folder, LAUNCHER)
    for command in own:
        run(command, folder)


def main():
    source, build, variables = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    page = blocks(source, "From a project of your own")
    cmake, program, commands = page["cmake"][0], page["cpp"][0], page["console"]
    with tempfile.TemporaryDirectory(prefix="lockstep-project-") as name:
        folder = pathlib.Path(name)
        os.symlink(source, folder / "lockstep")
        (folder / "CMakeLists.txt").write_text(cmake)
        (folder / "main.cpp").write_text(program)
        configure, make, start = commands
        run(shlex.join([*shlex.split(configure), *variables]), folder)
        if make != "cmake --build build":
            sys.exit(f"this test stands in for `cmake --build build`, and the page has: {make}")
        build_program(folder / "build", build)
        check_ranks(run(start, folder))


main()
