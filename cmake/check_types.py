"""Fails if one namespace holds two definitions of a class, struct, enum or alias: programs that link both are ill-formed.

Reads definitions that begin in column 0, inside namespaces that begin there too; anonymous namespaces are each file's own,
and so are aliases of a .cpp file. Two aliases of one meaning are one alias, in two files as in one.
"""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
NAMESPACE = r"^(?:inline )?namespace ?(?P<space>[\w:]*) ?\{"
END = r"^\}  // namespace"
TYPE = r"^(?:template <[^;{]*>\s*)?(?:class|struct|union|enum class|enum struct|enum) (?:\[\[[^\]]+\]\] |alignas\([^)]*\) )*(?P<type>\w+)(?: final)?\s*(?::[^:{;][^{;]*)?\{"
ALIAS = r"^(?:template <[^;{]*>\s*)?using (?P<alias>\w+) = (?P<meaning>[^;]*);"
CONDITION = r"^#(?:if|else|elif)"
TOKENS = re.compile(f"{NAMESPACE}|{END}|{TYPE}|{ALIAS}|{CONDITION}", re.M)


def types_in(code):
    """(qualified name, meaning of an alias or "", which of the parts that the preprocessor chooses) of definitions."""
    open_spaces, part = [], 0
    for token in TOKENS.finditer(code):
        if name := token["type"] or token["alias"]:
            if "" not in open_spaces:
                yield "::".join([*open_spaces, name]), " ".join((token["meaning"] or "").split()), part
        elif token["space"] is not None:
            open_spaces.append(token["space"])
        elif token[0].startswith("#"):
            part += 1
        else:
            open_spaces.pop()


homes = collections.defaultdict(set)
bad = []
for folder in ("include", "src", "tools", "bench", "tests", "fuzz"):
    for file in sorted((root / folder).rglob("*")):
        if file.suffix in (".h", ".cpp", ".inl"):
            for name, meaning, part in types_in(file.read_text()):
                if meaning and file.suffix == ".cpp":
                    continue
                place = meaning or str(file.relative_to(root))
                if (place, part) in homes[name] and not meaning:
                    bad.append(f"{name} is defined twice in {place}: rename one")
                homes[name].add((place, part))

for name, places in sorted(homes.items()):
    places = sorted({place for place, _ in places})
    if len(places) > 1:
        bad.append(f"{name} is defined in or as {' and '.join(places)}: rename one")
if not homes:
    bad.append(f"{root}: no type found, so nothing was checked")
print(f"{len(homes)} types checked")
sys.exit("\n".join(bad) or 0)
