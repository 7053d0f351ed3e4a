"""Fails if a file includes what it may not.

A module includes itself and the modules that src/lockstep/CMakeLists.txt lists for it, which stand above it there. A
header under include/ is a promise to users, so it includes headers under include/, LibTorch, the language's and the
system's, and nlohmann/json alone. Those under include/lockstep/detail/ are not to be included by their names: they
stand there because promised headers need them.

And it fails if tools/ and bench/ include more of each other than what they share (SHARED), or if a folder has more
than 30 files on one floor: then it needs rooms.
"""
import pathlib
import re
import sys

project = pathlib.Path(sys.argv[1])
inside, promised = project / "src/lockstep", project / "include/lockstep"
text = (inside / "CMakeLists.txt").read_text()
rules = re.findall(r"^lockstep_module\(([\w/]+)( TORCH)?(?: DEPENDS ([a-z_/ ]+))?", text, re.M)
modules = {rule[0] for rule in rules}
detail = promised / "detail"
umbrella = promised / "lockstep.h"
of_no_module = {"version.h"}


SHARED = ("tools/frame/", "tools/hosts/", "tools/models/")  # by tools/lockstep and bench


def module_of(path):
    """The innermost module that holds `path`, as "data/text" holds data/text/utf8.h; else its first folder."""
    path = path.removeprefix("detail/")
    holders = [module for module in modules if path.startswith(module + "/")]
    return max(holders, key=len, default=path.split("/")[0])


def all_includes_of(file):
    code = re.sub(r"//[^\n]*", "", file.read_text())
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', code, re.M)


def includes_of(file):
    return [path.removeprefix("lockstep/") for path in all_includes_of(file) if path.startswith("lockstep/")]


def is_for_users(path):
    """Of what is not Lockstep's: what a promised header may include."""
    return "/" not in path or path.split("/")[0] in ("torch", "ATen", "c10", "caffe2", "nlohmann", "sys", "netinet")


bad = [f"{d}: no lockstep_module line" for root in (inside, promised, detail) for d in sorted(root.iterdir())
       if d.is_dir() and d != detail and any(d.rglob("*.[hc]*")) and d.name not in modules]
bad += [f"{file}: it is in no module" for file in inside.glob("*.[hc]*")]
for root in (inside, promised):
    bad += [f"{file}: only .h, .cpp and .inl are checked" for file in root.rglob("*.*")
            if file.is_file() and file.suffix not in (".h", ".cpp", ".inl", ".txt")]
known = set()
for module, torch, deps in rules:
    bad += [f"{inside}/CMakeLists.txt: {module} may not depend on {other}, which stands below it"
            for other in deps.split() if other not in known]
    known.add(module)
checked = 0
for module, torch, deps in rules:
    for root in (inside, promised, detail):
        for file in sorted(each for each in (root / module).rglob("*.*") if each.suffix in (".h", ".cpp", ".inl")):
            if module_of(str(file.relative_to(root))) != module:
                continue
            checked += 1
            for included in includes_of(file):
                if module_of(included) not in {module, *deps.split(), *of_no_module}:
                    bad.append(f"{file}: {module} may not include {module_of(included)}")
            others = [path for path in all_includes_of(file) if not path.startswith("lockstep/")]
            if any(".." in path.split("/") for path in all_includes_of(file)):
                bad.append(f"{file}: name a header by its path from lockstep/, without ..")
            if not torch and any(path.split("/")[0] in ("torch", "ATen", "c10", "caffe2") for path in others):
                bad.append(f"{file}: {module} is torch-free")
            if file.suffix == ".h" and "torch/torch.h" in others:
                bad.append(f"{file}: name the narrow torch header instead of torch/torch.h")

headers = sorted(promised.rglob("*.h"))
for header in headers:
    for included in includes_of(header):
        if not (promised / included).exists():
            bad.append(f"{header}: it is under include/, and lockstep/{included} is not")
    bad += [f"{header}: programs would need the headers of {path}" for path in all_includes_of(header)
            if not path.startswith("lockstep/") and not is_for_users(path)]
needed = {included for header in headers for included in includes_of(header) if promised / included != header}
for header in headers:
    name = str(header.relative_to(promised))
    if detail in header.parents:
        if name in includes_of(umbrella):
            bad.append(f"{umbrella}: lockstep/{name} is no promise")
        if name not in needed:
            bad.append(f"{header}: no header under include/ needs it, so it belongs into src/")
    elif header != umbrella and name not in includes_of(umbrella):
        bad.append(f"{umbrella}: lockstep/{name} is missing")
for file in sorted(each for root in ("tools", "bench") for each in (project / root).rglob("*.[hc]*")):
    user = str(file.relative_to(project))
    for included in all_includes_of(file):
        of_tools = included.startswith("tools/") and not included.startswith(SHARED)
        if included.startswith("bench/") if user.startswith("tools/") else of_tools:
            bad.append(f"{file}: {included} is of the other side; what tools and bench share is in {', '.join(SHARED)}")
        elif of_tools and user.startswith(SHARED):
            bad.append(f"{file}: {included} is above it")
for root in ("src", "include", "tools", "tests", "bench", "examples", "fuzz", "cmake", "docs", "scripts"):
    for folder in [project / root, *(project / root).rglob("*")]:
        files = [file for file in folder.iterdir() if file.is_file()] if folder.is_dir() else []
        if len(files) > 30:
            bad.append(f"{folder}: {len(files)} files on one floor")
if not checked:
    bad.append(f"{inside}: no source file found, so nothing was checked")
details = sum(detail in header.parents for header in headers)
print(f"{checked} files in {len(modules)} modules checked, {len(headers) - details} of them promised headers, {details} of "
      "them headers that stand behind promised ones")
sys.exit("\n".join(bad) or 0)
