"""Fails if a file under src/lockstep includes a module that its own does not list in src/lockstep/CMakeLists.txt."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]) / "src/lockstep"
text = (root / "CMakeLists.txt").read_text()
rules = re.findall(r"^lockstep_module\(([\w/]+)( TORCH)?(?: DEPENDS ([a-z_/ ]+))?", text, re.M)
modules = {rule[0] for rule in rules}


def module_of(path):
    """The innermost module that holds `path`, as "data/text" holds data/text/unicode/utf8.h; else its first folder."""
    holders = [module for module in modules if path.startswith(module + "/")]
    return max(holders, key=len, default=path.split("/")[0])


bad = [f"{d}: no lockstep_module line" for d in sorted(root.iterdir())
       if d.is_dir() and any(d.rglob("*.[hc]*")) and d.name not in modules]
checked = 0
for module, torch, deps in rules:
    for file in sorted((root / module).rglob("*.[hc]*")):
        if module_of(str(file.relative_to(root))) != module:
            continue
        checked += 1
        code = file.read_text()
        for included in re.findall(r'#include "lockstep/([^"]+)"', code):
            if module_of(included) not in {module, *deps.split()}:
                bad.append(f"{file}: {module} may not include {module_of(included)}")
        if not torch and re.search(r"#include <(torch|ATen|c10)/", code):
            bad.append(f"{file}: {module} is torch-free")
        if file.suffix == ".h" and "<torch/torch.h>" in code:
            bad.append(f"{file}: name the narrow torch header instead of torch/torch.h")
if not checked:
    bad.append(f"{root}: no source file found, so nothing was checked")
print(f"{checked} files in {len(modules)} modules checked")
sys.exit("\n".join(bad) or 0)
