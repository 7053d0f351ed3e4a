"""Fails if one namespace holds two definitions of a class, struct, enum or alias: programs that link both are ill-formed.
It fails, too, if a class of the library or of its programs is too large: see class_sizes.py.

Reads definitions that begin in column 0, inside namespaces that begin there too; anonymous namespaces are each file's own,
and so are aliases of a .cpp file. Two aliases of one meaning are one alias, in two files as in one.
"""
import collections
import pathlib
import re
import sys

import class_sizes

root = pathlib.Path(sys.argv[1])
NAMESPACE = r"^(?:inline )?namespace ?(?P<space>[\w:]*) ?\{"
END = r"^\}  // namespace"
TYPE = r"^(?:template <[^;{]*>\s*)?(?:class|struct|union|enum class|enum struct|enum) (?:\[\[[^\]]+\]\] |alignas\([^)]*\) )*(?P<type>\w+)(?: final)?\s*(?::[^:{;][^{;]*)?\{"
ALIAS = r"^(?:template <[^;{]*>\s*)?using (?P<alias>\w+) = (?P<meaning>[^;]*);"
CONDITION = r"^#(?:if|else|elif)"
TOKENS = re.compile(f"{NAMESPACE}|{END}|{TYPE}|{ALIAS}|{CONDITION}|{class_sizes.MEMBER}", re.M)


def tokens_of(code):
    """(namespaces around it, match) of what TOKENS finds, but for namespaces."""
    open_spaces = []
    for token in TOKENS.finditer(code):
        if token["space"] is not None:
            open_spaces.append(token["space"])
        elif token[0].startswith("}"):
            open_spaces.pop()
        else:
            yield open_spaces, token


homes, sizes, bad = collections.defaultdict(set), class_sizes.Sizes(), []
for folder in ("include", "src", "tools", "bench", "tests", "fuzz"):
    for file in sorted((root / folder).rglob("*")):
        if file.suffix not in (".h", ".cpp", ".inl"):
            continue
        code, path = file.read_text(), str(file.relative_to(root))
        part = 0  # of those that the preprocessor chooses
        is_sized = folder not in ("tests", "fuzz")
        for spaces, token in tokens_of(code):
            name = "::".join([*spaces, token["type"] or token["alias"] or ""])
            meaning = " ".join((token["meaning"] or "").split())
            if is_sized and token["type"] and not re.search(r"^enum", token[0], re.M):
                sizes.take_type(f"{name} of {path}" if "" in spaces else name, class_sizes.body_at(code, token.end()))
            if "" in spaces:
                continue
            if token["owner"]:
                if is_sized and file.suffix == ".cpp":
                    sizes.take_member(spaces, token["owner"], path)
            elif token[0].startswith("#"):
                part += 1
            elif not meaning or file.suffix != ".cpp":
                place = meaning or path
                if (place, part) in homes[name] and not meaning:
                    bad.append(f"{name} is defined twice in {place}: rename one")
                homes[name].add((place, part))

for name, places in sorted(homes.items()):
    places = sorted({place for place, _ in places})
    if len(places) > 1:
        bad.append(f"{name} is defined in or as {' and '.join(places)}: rename one")
if not homes:
    bad.append(f"{root}: no type found, so nothing was checked")
bad += sizes.faults()
print(f"{len(homes)} types checked, {len(sizes.methods)} of them for their size")
sys.exit("\n".join(bad) or 0)
