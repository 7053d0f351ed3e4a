"""The version stands in version.h alone, and the recipes in packaging/ name every library that the build requires.

The port of vcpkg is also run by CMake, with vcpkg's commands replaced by ones that print what they were asked.

The image's Dockerfile copies and builds what is there, and .dockerignore leaves out nothing of it.

usage: check_packaging.py SOURCE_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# What find_package calls a library, and what scripts/setup, vcpkg and Conan call it. None: it is not named there. The
# compiler brings threads, CMake's own recipes bring Python, and Conan's recipe takes LibTorch from its option `torch`.
LIBRARIES = {
    "CLI11": ("libcli11-dev", "cli11", "cli11"),
    "ICU": ("libicu-dev", "icu", "icu"),
    "OpenSSL": ("libssl-dev", "openssl", "openssl"),
    "Python3": ("python3", None, None),
    "Snappy": ("libsnappy-dev", "snappy", "snappy"),
    "Threads": (None, None, None),
    "Torch": ("libtorch-dev", "libtorch", None),
    "ZLIB": ("zlib1g-dev", "zlib", "zlib"),
    "fmt": ("libfmt-dev", "fmt", "fmt"),
    "nlohmann_json": ("nlohmann-json3-dev", "nlohmann-json", "nlohmann_json"),
    "simdjson": ("libsimdjson-dev", "simdjson", "simdjson"),
    "spdlog": ("libspdlog-dev", "spdlog", "spdlog"),
    "yaml-cpp": ("libyaml-cpp-dev", "yaml-cpp", "yaml-cpp"),
    "zstd": ("libzstd-dev", "zstd", "zstd"),
}
PORT_COMMANDS = ("vcpkg_cmake_configure", "vcpkg_cmake_install", "vcpkg_cmake_config_fixup", "vcpkg_fixup_pkgconfig",
                 "vcpkg_copy_tools", "vcpkg_install_copyright")


def expect(condition, what):
    if not condition:
        sys.exit(what)


def header_version(source):
    text = (source / "include/lockstep/version.h").read_text()
    return ".".join(re.findall(r"define LOCKSTEP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


# Files that say it again would be wrong after the next release. The changelog has it as a heading.
def check_version_stands_once(source, version):
    major, minor, patch = version.split(".")
    ours = re.compile(rf"lockstep.{{0,30}}(?<!\d)(?<!\d\.){major}\.{minor}(\.{patch})?(?![\w.]*\d)", re.I)
    of_recipes = re.compile(rf"(?<!\d)(?<!\d\.){re.escape(version)}(?![\w.]*\d)")
    found = []
    for folder in ("", ".ci", ".github", "bench", "cmake", "docs", "examples", "include", "packaging", "scripts", "src", "tests",
                   "tools"):
        for path in sorted((source / folder).glob("**/*" if folder else "*")):
            if path.suffix in (".png", ".gz", ".pyc") or not path.is_file() or path.name == "CHANGELOG.md":
                continue
            pattern = of_recipes if folder in ("", "cmake", "packaging", "scripts") else ours
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if pattern.search(line) or ours.search(line):
                    found.append(f"{path.relative_to(source)}:{number}: {line.strip()[:100]}")
    expect(not found, "\n".join([f"the version {version} stands in version.h alone, and is taken from there; here it is again:",
                                *found]))


def check_changelog(source, version):
    text = (source / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.M)
    expect(headings[0] == "Unreleased", "CHANGELOG.md begins with ## Unreleased")
    released = [heading.split()[0] for heading in headings[1:]]
    numbers = [[int(number) for number in each.split(".")] for each in (version, released[0])]
    expect(numbers[0] >= numbers[1], f"CHANGELOG.md has a later version, {released[0]}, than version.h, {version}")


def required_libraries(source):
    text = "".join((source / "cmake" / name).read_text() for name in ("LockstepDependencies.cmake", "LockstepTorch.cmake"))
    return set(re.findall(r"find_package\((\S+) REQUIRED", text))


def check_names(source, port):
    required = required_libraries(source)
    expect(required == set(LIBRARIES), f"check_packaging.py lists {sorted(LIBRARIES)}, the build requires {sorted(required)}")
    setup = set(re.search(r"\npackages=\((.*?)\)", (source / "scripts/setup").read_text(), re.S).group(1).split())
    setup.add("libtorch-dev")  # added there unless another LibTorch is named
    recipe = (source / "packaging/conan/conanfile.py").read_text()
    conan = set(re.findall(r'"([a-z0-9_-]+)/\[', recipe))
    profile = (source / "packaging/conan/debian-12").read_text().split("[platform_requires]")[1]
    vcpkg = {entry for entry in port["dependencies"] if isinstance(entry, str)}
    for column, where, named in ((1, "packaging/vcpkg/lockstep/vcpkg.json", vcpkg), (2, "packaging/conan/conanfile.py", conan),
                                 (2, "packaging/conan/debian-12", set(re.findall(r"^([a-z0-9_-]+)/", profile, re.M)))):
        wanted = {names[column] for names in LIBRARIES.values() if names[column]}
        expect(named == wanted, f"{where} names {sorted(named)}, and the build requires {sorted(wanted)}")
    missing = {names[0] for names in LIBRARIES.values() if names[0]} - setup
    expect(not missing, f"scripts/setup does not name {sorted(missing)}")


def check_port(source):
    folder = source / "packaging/vcpkg/lockstep"
    with tempfile.TemporaryDirectory() as name:
        script = pathlib.Path(name) / "port.cmake"
        lines = ["cmake_minimum_required(VERSION 3.25)", "set(FEATURES core)", "set(PORT lockstep)",
                 f"set(CURRENT_PACKAGES_DIR {name}/packages)"]
        for command in PORT_COMMANDS:
            lines.append(f'macro({command})\n  message(STATUS "{command} ${{ARGN}}")\nendmacro()')
        script.write_text("\n".join([*lines, f"include({folder}/portfile.cmake)"]))
        (pathlib.Path(name) / "packages/libexec/lockstep").mkdir(parents=True)
        (pathlib.Path(name) / "packages/libexec/lockstep/lockstep-torch").touch()
        run = subprocess.run(["cmake", "-P", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect(run.returncode == 0, f"{folder}/portfile.cmake fails:\n{run.stdout}")
        called = re.findall(r"^-- (vcpkg_\w+) (.*)$", run.stdout, re.M)
        expect([command for command, _ in called] == list(PORT_COMMANDS), f"the port calls:\n{run.stdout}")
        given = dict(called)
        expect(given["vcpkg_cmake_configure"].startswith(f"SOURCE_PATH;{source}/;"), f"the port builds:\n{run.stdout}")
        expect((source / "LICENSE").samefile(given["vcpkg_install_copyright"].split(";")[1]), f"no licence:\n{run.stdout}")
        expect((pathlib.Path(name) / "packages/tools/lockstep/lockstep-torch").exists(), "the port loses lockstep-torch")


# The image: what .dockerignore keeps from it is not what its build reads, and each stage's copies exist.
def check_docker(source):
    dockerfile = (source / "packaging/docker/Dockerfile").read_text()
    ignored = {line.strip("/") for line in (source / ".dockerignore").read_text().splitlines() if line and line[0] != "#"}
    built = re.findall(r"^( *)add_subdirectory\((\S+)\)", (source / "CMakeLists.txt").read_text(), re.M)
    needed = {folder.split("/")[0] for indent, folder in built if not indent} | {"cmake", "data", "include", "scripts"}
    needed |= {"CMakeLists.txt", "CMakePresets.json", "LICENSE"}
    expect(not needed & ignored, f".dockerignore leaves out {sorted(needed & ignored)}, which the build reads")
    for name in re.findall(r"^COPY (?!--from)(\S+) ", dockerfile, re.M):
        expect((source / name).exists(), f"packaging/docker/Dockerfile copies {name}, which is not there")
    installed = (source / "cmake/LockstepInstall.cmake").read_text()
    targets = set(re.search(r"--target ([\w\s-]+?) *\\$", dockerfile, re.M).group(1).split())
    command = installed.split("# ---- command")[1].split("# ---- benchmarks")[0]
    links = set(re.findall(r"\$\{CMAKE_RUNTIME_OUTPUT_DIRECTORY\}/(\S+)", command))  # of what they lead to, CMake knows
    expect(links <= targets, f"packaging/docker/Dockerfile does not build {sorted(links - targets)}, which it installs")
    for target in targets:
        expect(target in command, f"packaging/docker/Dockerfile builds {target}, which is not of the command")


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    port = json.loads((source / "packaging/vcpkg/lockstep/vcpkg.json").read_text())
    version = header_version(source)
    check_version_stands_once(source, version)
    check_changelog(source, version)
    check_names(source, port)
    check_port(source)
    check_docker(source)


main()
