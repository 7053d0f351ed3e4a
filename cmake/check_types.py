"""Fails if one namespace holds two definitions of a class, struct or enum: programs that link both are ill-formed.

Reads definitions that begin in column 0, inside namespaces that begin there too; anonymous namespaces are each file's own.
"""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
NAMESPACE = r"^(?:inline )?namespace ?(?P<space>[\w:]*) ?\{"
END = r"^\}  // namespace"
TYPE = r"^(?:template <[^;{]*>\s*)?(?:class|struct|union|enum class|enum struct|enum) (?:\[\[[^\]]+\]\] |alignas\([^)]*\) )*(?P<type>\w+)(?: final)?\s*(?::[^:{;][^{;]*)?\{"
TOKENS = re.compile(f"{NAMESPACE}|{END}|{TYPE}", re.M)


def types_in(code):
    """Qualified names of what `code` defines."""
    open_spaces = []
    for token in TOKENS.finditer(code):
        if token["type"]:
            if "" not in open_spaces:
                yield "::".join([*open_spaces, token["type"]])
        elif token["space"] is not None:
            open_spaces.append(token["space"])
        else:
            open_spaces.pop()


homes = collections.defaultdict(set)
for folder in ("include", "src", "tools", "bench", "tests", "fuzz"):
    for file in sorted((root / folder).rglob("*")):
        if file.suffix in (".h", ".cpp", ".inl"):
            for name in types_in(file.read_text()):
                homes[name].add(str(file.relative_to(root)))

bad = [f"{name} is defined in {' and in '.join(sorted(files))}: rename one"
       for name, files in sorted(homes.items()) if len(files) > 1]
if not homes:
    bad.append(f"{root}: no type found, so nothing was checked")
print(f"{len(homes)} types checked")
sys.exit("\n".join(bad) or 0)
