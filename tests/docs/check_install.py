"""Follows "Install" in docs/building.md: installs the build at hand, and builds the page's program with what was installed.

The page installs into /opt/lockstep. Here DESTDIR puts that folder below a temporary one, where all is used: so an
installation that finds its parts only where it was made for does not pass. The program is compiled once; the other ways to
build it link the same object.

usage: check_install.py SOURCE_DIR BUILD_DIR [-DVARIABLE=VALUE...]
    BUILD_DIR: a build of SOURCE_DIR; the variables are those of the configuration at hand
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from building_page import PROGRAM, blocks, check_ranks, run

PREFIX = "/opt/lockstep"
VERSION = re.compile(r"\d+\.\d+\.\d+")


def expect(condition, what):
    if not condition:
        sys.exit(what)


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def check_program(program):
    """It starts as the library wants, and has nothing of Trainer, which the component that it names does not need."""
    expect(".preinit_array" in output("readelf", "--section-headers", "--wide", program), f"{program} has no .preinit_array")
    symbols = output("nm", "--demangle", program)
    expect(not re.search(r"\blockstep::Trainer\b", symbols), f"{program} contains Trainer")


def check_command(prefix):
    """The command and its companions find each other."""
    command = f"{prefix}/bin/lockstep"
    version = VERSION.search(run(f"{command} --version", prefix)).group()
    expect(version in run(f"{command} env --json", prefix), "lockstep-torch has another version")
    run(f"{command} run --nproc-per-node 1 --max-restarts 1 --warm-spares true", prefix)
    for name in ("lockstep", "_lockstep", "lockstep.fish"):
        found = next((path for path in pathlib.Path(prefix, "share").rglob(name) if path.is_file()), None)
        expect(found and "adam-epsilon" in found.read_text(), f"there are no completions {name}")
    expect(list(pathlib.Path(prefix, "share/man/man1").glob("lockstep.1*")), "there is no manual page")
    return version


ENGINE_PROGRAM = """#include <cstdio>

#include "lockstep/comm/process_group.h"

int main() {
  lockstep::init_process_group("mpi");
  std::printf("rank %d of %d: 0.0\\n", lockstep::get_rank(), lockstep::get_world_size());
  lockstep::destroy_process_group();
}
"""


def check_engine(folder, prefix, packages):
    """A program linked with a part of the library loads engine mpi's module from the installation, not from the build."""
    module = next(pathlib.Path(prefix).rglob("liblockstep_mpi.so"), None)
    if module is None or not shutil.which("mpirun"):
        print("engine mpi is not checked: it was not built, or mpirun is not installed", flush=True)
        return
    (folder / "engine.cpp").write_text(ENGINE_PROGRAM)
    run(packages + "c++ -std=c++17 engine.cpp $(pkg-config --cflags --libs lockstep-comm) -o engine", folder)
    said = run("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_DEBUG=files mpirun --oversubscribe -np 2 ./engine "
               "2>&1 | grep -E 'rank . of|liblockstep_mpi'", folder)
    check_ranks(said)
    loaded = {os.path.realpath(path) for path in re.findall(r"calling init: (/\S*liblockstep_mpi\.so)", said)}
    expect(loaded == {os.path.realpath(module)}, f"{module} was not loaded, or another was")


def check_refusals(folder, prefix, variables):
    """What cannot be found is named in words."""
    project = folder / "refused"
    project.mkdir()
    text = "cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES CXX)\nfind_package(Lockstep CONFIG REQUIRED "
    other = folder / "other-torch/share/cmake/Torch"
    other.mkdir(parents=True)
    (other / "TorchConfig.cmake").write_text("")
    (other / "TorchConfigVersion.cmake").write_text('set(PACKAGE_VERSION "99.1.0")\n')
    for components, more, words in (("COMPONENTS comm sails", "", ["Lockstep has no component sails", "parallel"]),
                                    ("COMPONENTS comm", f"-DTorch_DIR={other}", ["was built with LibTorch", "99.1.0"])):
        (project / "CMakeLists.txt").write_text(f"{text}{components})\n")
        shutil.rmtree(project / "build", ignore_errors=True)
        said = run(f"cmake -G Ninja -B build -DCMAKE_PREFIX_PATH={prefix} {more} {shlex.join(variables)}", project, fails=True)
        said = " ".join(said.split())
        for word in words:
            expect(word in said, f"the error does not say: {word}")


def link_again(folder, build, prefix, configure, variables):
    """The page's project, configured for `prefix` and linked from the object in folder/build."""
    run(configure.replace(PREFIX, prefix).replace("-B build", f"-B {build}") + " " + shlex.join(variables), folder)
    objects = pathlib.Path(f"CMakeFiles/{PROGRAM}.dir/main.cpp.o")
    (folder / build / objects).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "build" / objects, folder / build / objects)
    commands = output("ninja", "-C", str(folder / build), "-t", "commands", PROGRAM).splitlines()
    link = next(command for command in commands if f" -o {PROGRAM} " in command)
    run(link, folder / build)
    return folder / build / PROGRAM


def main():
    source, build, variables = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    page = blocks(source, "Install")
    install, configure, make, start, path, compile_program = page["console"]
    with tempfile.TemporaryDirectory(prefix="lockstep-install-") as name:
        folder = pathlib.Path(name)
        run(install.replace("build/release", str(build)).replace("cmake ", f"DESTDIR={folder}/stage cmake "), folder)
        prefix = f"{folder}/stage{PREFIX}"
        version = check_command(prefix)

        project = folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(page["cmake"][0])
        (project / "main.cpp").write_text(blocks(source, "From a project of your own")["cpp"][0])
        run(configure.replace(PREFIX, prefix) + " " + shlex.join(variables), project)
        run(make, project)
        check_program(project / "build" / PROGRAM)
        check_ranks(run(start.replace(PREFIX, prefix), project))
        check_refusals(folder, prefix, variables)

        moved = f"{folder}/elsewhere"
        os.rename(prefix, moved)
        check_command(moved)
        program = link_again(project, "build-moved", moved, configure, variables)
        check_ranks(run(f"{moved}/bin/lockstep run --nproc-per-node 2 {program}", project))

        files = next(pathlib.Path(moved).rglob("pkgconfig"))  # in another folder than lib/ if the prefix was /usr
        packages = path.replace(f"{PREFIX}/lib/pkgconfig", str(files)) + " && "
        linked = compile_program.replace("main.cpp", f"build/CMakeFiles/{PROGRAM}.dir/main.cpp.o")
        expect(linked != compile_program, f"the page does not compile main.cpp: {compile_program}")
        run(packages + linked, project)
        check_program(project / PROGRAM)
        check_ranks(run(f"{moved}/bin/lockstep run --nproc-per-node 2 ./{PROGRAM}", project))
        check_engine(project, moved, packages)
        (project / "version.cpp").write_text('#include "lockstep/version.h"\nconst char* version = LOCKSTEP_VERSION;\n')
        said = run(packages + "c++ -c $(pkg-config --cflags lockstep) version.cpp && strings version.o && "
                   "pkg-config --modversion lockstep", project)
        expect(said.count(version) == 2, f"not {version} in the header and in lockstep.pc")


main()
