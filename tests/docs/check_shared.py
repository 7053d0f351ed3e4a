"""Lockstep as shared libraries: which symbols they export, and that types are the same in all of them.

The libraries are linked and installed as BUILD_SHARED_LIBS=ON does it, from the objects of the build at hand, which a
shared build compiles no differently. The program of docs/building.md is compiled for them, and run.

usage: check_shared.py SOURCE_DIR BUILD_DIR -DVARIABLE=VALUE...
    BUILD_DIR: a build of SOURCE_DIR; the variables are those with which it was configured
"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from building_page import PROGRAM, blocks, check_ranks, run

PREFIX = "/opt/lockstep"
OURS = re.compile(r"_Z(?:N[KORV]{0,2}|T[ISTVWH]N|T[chv]\w*?_NK?|ZNK?|GVN|GVZNK?)8lockstep")
FEW = 500  # with fewer, the script has lost its patterns
# Module comm throws the error, whose type is module base's.
TYPES_PROGRAM = """#include <cstdio>
#include <exception>
#include <typeinfo>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"

int main() {
  try {
    lockstep::init_process_group("no such engine");
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const lockstep::Error*>(&error);
    const bool same = ours != nullptr && typeid(error) == typeid(lockstep::Error);
    std::printf("%s\\n%s\\n", error.what(), same ? "a lockstep::Error" : "another type");
  }
}
"""
TYPES_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(types LANGUAGES CXX)
find_package(Lockstep CONFIG REQUIRED COMPONENTS comm)
add_executable(types types.cpp)
target_link_libraries(types PRIVATE Lockstep::comm)
"""


def expect(condition, what):
    if not condition:
        sys.exit(what)


def output(*words):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def link_libraries(source, build, shared, variables):
    """Configures a shared build, gives it the objects of `build`, and runs what else its libraries need."""
    run(f"cmake -S {source} -B {shared} -G Ninja -DBUILD_SHARED_LIBS=ON -DLOCKSTEP_TESTS=OFF {shlex.join(variables)}", build)
    libraries = [line.split(":")[0] for line in output("ninja", "-C", shared, "-t", "targets", "all").splitlines()
                 if re.match(r"(?:src/lockstep|bin)/liblockstep_\w+\.(?:so[\d.]*|a):", line)]
    for command in output("ninja", "-C", shared, "-t", "commands", *libraries).splitlines():
        compiled = re.search(r" -o (\S+\.(?:o|gch)) -c ", command)
        if not compiled:
            run(command, shared)
        elif compiled[1].endswith(".o"):
            made = build / compiled[1]
            expect(made.exists(), f"{build} has not compiled {compiled[1]}: build all of it first")
            (shared / compiled[1]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, shared / compiled[1])


def check_exports(folder):
    """Every library exports names of Lockstep alone."""
    found = 0
    libraries = [path for path in folder.glob("liblockstep_*.so.*") if not path.is_symlink()]
    expect(len(libraries) > 10, f"{folder} has {len(libraries)} libraries")
    for library in libraries:
        for line in output("nm", "-D", "--defined-only", library).splitlines():
            name = line.split()[-1]
            expect(OURS.match(name), f"{library.name} exports {name}, which is none of Lockstep's")
            found += 1
    expect(found > FEW, f"only {found} symbols")


def check_engines(folder):
    """An engine that is a module exports its entries alone."""
    for module in folder.glob("*.so"):
        names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", module).splitlines()]
        expect(names, f"{module} exports nothing")
        for name in names:
            expect(name.startswith("lockstep_"), f"{module} exports {name}, which is not an entry of an engine")


def build_project(folder, prefix, cmake, sources, variables):
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(cmake)
    for name, text in sources.items():
        (folder / name).write_text(text)
    run(f"cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH={prefix} {shlex.join(variables)}", folder)
    run("cmake --build build", folder)


def main():
    source, build, variables = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    with tempfile.TemporaryDirectory(prefix="lockstep-shared-") as name:
        folder = pathlib.Path(name)
        shared = folder / "build"
        link_libraries(source, build, shared, variables)
        for component in ("library", "development"):
            run(f"DESTDIR={folder}/stage cmake --install {shared} --prefix {PREFIX} --component {component}", folder)
        prefix = f"{folder}/stage{PREFIX}"
        libraries = next(pathlib.Path(prefix).rglob("liblockstep_base.so")).parent
        check_exports(libraries)
        check_engines(libraries / "lockstep")

        page = blocks(source, "Install")["cmake"][0]
        compiler = [variable for variable in variables if variable.startswith("-DCMAKE_CXX_COMPILER")]
        text = blocks(source, "From a project of your own")["cpp"][0]
        build_project(folder / "mine", prefix, page, {"main.cpp": text}, compiler)
        check_ranks(run(f"{build}/bin/lockstep run --nproc-per-node 2 {folder}/mine/build/{PROGRAM}", folder))

        build_project(folder / "types", prefix, TYPES_PROJECT, {"types.cpp": TYPES_PROGRAM}, compiler)
        said = run(f"{folder}/types/build/types", folder)
        expect(said.endswith("a lockstep::Error\n"), "a type is not the same in two libraries")


main()
