"""Fails if a name stands in anonymous namespaces of two files that a unity build may put into one translation unit.

Which files share a batch changes with every new file, so a name must be unique in its folder. Overloads may share a name
if their parameters differ. The search reads declarations at the top level of each `namespace {`, line by line; it knows
the style of this project, not all of C++.
"""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
ALONE = re.compile(r"kernel|/reduce_\w+\.cpp$")  # compiled by themselves: see SKIP_UNITY_BUILD_INCLUSION
CONSTANT = re.compile(r"(?:constexpr|const|static|inline|thread_local|std::atomic\S*)\b.*?\b(k[A-Z]\w*)\s*(?:\[[^\]]*\])?\s*(?:=|\(|\{|$)")
TYPE = re.compile(r"(?:struct|class|enum class|enum)\s+(\w+)\b")
FUNCTION = re.compile(r"(?:template\s*<.*>\s*)?(?:[\w:<>,*&\s\[\]]+?[\s*&])(\w+)\s*\(([^)]*)\)?")
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "decltype"}


def batch_of(path):
    """The files whose batches are cut anew together: a module of the library, a test binary, a folder of programs."""
    parts = path.relative_to(root).parts
    depth = 3 if parts[0] == "src" else 2
    if parts[:2] in (("bench", "tables"), ("bench", "measure")):
        return "tools/lockstep"  # `lockstep bench` is compiled with the other subcommands
    inner = {("src", "lockstep", "data", "text"), ("tests", "e2e", "launcher"), ("tests", "data", "text")}
    return "/".join(parts[: depth + 1] if parts[: depth + 1] in inner else parts[:depth])


def top_level_of_anonymous_namespaces(code):
    code = re.sub(r'R"\((?:.|\n)*?\)"', '""', code)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', re.sub(r"//.*", "", code))
    code = re.sub(r"'(?:\\.|[^'\\])'", "0", code)
    for start in re.finditer(r"namespace \{", code):
        depth, body = 1, []
        for c in code[start.end():]:
            depth += {"{": 1, "}": -1}.get(c, 0)
            if depth == 0:
                break
            if depth == 1 or (depth == 2 and c == "{"):
                body.append(c)
        yield "".join(body)


def names_in(body):
    for declaration in re.split(r"[;\n}]", body):
        declaration = declaration.strip()
        if match := CONSTANT.match(declaration) or TYPE.match(declaration):
            yield match.group(1)
        elif (match := FUNCTION.match(declaration)) and match.group(1) not in KEYWORDS:
            types = [re.sub(r"\s*\b\w+$", "", parameter.strip()) for parameter in match.group(2).split(",")]
            yield f"{match.group(1)}({', '.join(types)})"


places = collections.defaultdict(set)
checked = 0
for folder in ("src", "tools", "bench", "tests"):
    for file in sorted((root / folder).rglob("*.cpp")):
        if ALONE.search(str(file)) or file.parent.name in ("programs", "workers", "peers", "hosts"):
            continue  # programs are one file each
        checked += 1
        for body in top_level_of_anonymous_namespaces(file.read_text()):
            for name in names_in(body):
                places[batch_of(file), name].add(str(file.relative_to(root)))

bad = [f"{name} stands in {' and in '.join(sorted(files))}: rename one" for (_, name), files in sorted(places.items())
       if len(files) > 1]
if not checked:
    bad.append(f"{root}: no source file found, so nothing was checked")
print(f"{checked} files, {len(places)} names checked")
sys.exit("\n".join(bad) or 0)
