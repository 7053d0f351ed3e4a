"""The version script of Lockstep's shared libraries: what each of them exports, and under which version.

LOCKSTEP_X.Y has what the headers under include/ name, and what is linked into programs calls. LOCKSTEP_PRIVATE_X.Y.Z has
the rest of namespace lockstep, which modules use of each other: a program that needs it shows it (readelf --version-info),
and runs with the libraries of that build alone. Nothing else is exported.

usage: symbol_versions.py INCLUDE_DIR VERSION SCRIPT
"""
import pathlib
import re
import sys

OPERATORS = {"==": "eq", "!=": "ne", "<<": "ls", ">>": "rs", "<": "lt", "+": "pl", "-": "mi", "*": "ml", "()": "cl", "[]": "ix"}
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\([^)]*\)", re.S)
TYPE = re.compile(r"^(?:class|struct|union) (?P<name>\w+)\b(?! ?<)(?: final)? ?(?:$|:)")
# What src/lockstep/start/preinit.cpp calls, which is linked into programs: names of namespace lockstep.
CALLED_BY_PREINIT = ("keep_freed_memory", "open_missing_streams", "variables_for_this_process")


def without_templates(text):
    """`text` without what stands between angle brackets."""
    kept, depth = [], 0
    for token in re.split(r"(operator ?(?:<<|>>|<=|>=|<|>|->)|->|<|>)", text):
        if token == "<":
            depth += 1
        elif token == ">":
            depth -= 1
        elif depth == 0:
            kept.append(token)
    return "".join(kept)


def declared_name(statement, has_body):
    """The class that a statement defines, or the function or variable that it declares; None for others."""
    text = " ".join(without_templates(ATTRIBUTE.sub(" ", statement)).split())
    text = re.sub(r"^(?:template |inline |constexpr |static |extern |explicit |\[\[\w+\]\] )*", "", text)
    if re.match(r"(?:using|typedef|static_assert|friend|enum|namespace)\b", text):
        return None
    kind = TYPE.match(text)
    if kind:
        return kind["name"] if has_body else None
    if re.match(r"(?:class|struct|union)\b", text) and "(" not in text:
        return None
    operator = re.search(r"\boperator ?(\(\)|\[\]|[^\s\w(]+)", text)
    if operator:
        return "operator" + operator[1]
    name = re.search(r"(?:^|[\s&*])(\w+) ?\(", text) or re.search(r"[\s&*](\w+) ?(?:=|\[|$)", text)
    return name[1] if name else None


def promised(code):
    """(namespaces, name) of everything at namespace scope."""
    code = NOISE.sub(" ", code)
    spaces, start, at = [], 0, 0
    while at < len(code):
        if code[at] == ";":
            name = declared_name(code[start:at], has_body=False)
            if name:
                yield sum(spaces, []), name
            start = at + 1
        elif code[at] == "{":
            head = code[start:at].strip()
            space = re.fullmatch(r"(?:inline )?namespace ?([\w:]*)", head)
            if space:
                spaces.append(space[1].split("::"))
                start = at + 1
            else:
                at = end_of_block(code, at)
                if not re.search(r"[=,(]$", head):  # a body, not a value
                    name = declared_name(head, has_body=True)
                    if name:
                        yield sum(spaces, []), name
                    start = at + 1
        elif code[at] == "}":
            spaces.pop()
            start = at + 1
        at += 1


def end_of_block(code, at):
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1


def promised_names(include):
    """As they stand in mangled names: 8lockstep4text8Encoding."""
    found = {f"8lockstep{len(name)}{name}" for name in CALLED_BY_PREINIT}
    for header in sorted(pathlib.Path(include).rglob("*.h")):
        for spaces, name in promised(header.read_text()):
            if spaces[:1] != ["lockstep"]:
                continue
            parts = [f"{len(part)}{part}" for part in (*spaces, name)]
            if name.startswith("operator"):
                parts[-1] = OPERATORS[name[len("operator"):]]
            found.add("".join(parts))
    return sorted(found)


def patterns(name):
    """Patterns of all symbols that are `name` or belong to it: members, tables, guards of variables inside, thunks."""
    return [f"_ZN{name}*", f"_ZN[KORV]{name}*", f"_ZNK[OR]{name}*", f"_ZT[ISTVWH]N{name}*", f"_ZT[chv]*_N{name}*",
            f"_ZT[chv]*_NK{name}*", f"_ZZN{name}*", f"_ZZNK{name}*", f"_ZGVN{name}*", f"_ZGVZN{name}*", f"_ZGVZNK{name}*"]


def node(version, names):
    """The linker takes the last node that has a pattern for a symbol."""
    body = "".join(f"    {pattern};\n" for name in names for pattern in patterns(name))
    return f"{version} {{\n  global:\n{body}}};\n"


def main():
    include, version, script = sys.argv[1:]
    names = promised_names(include)
    if not names:
        sys.exit(f"{include}: no name found")
    public = "LOCKSTEP_" + ".".join(version.split(".")[:2])
    private = node(f"LOCKSTEP_PRIVATE_{version}", ["8lockstep"]).replace("};\n", "  local:\n    *;\n};\n")
    pathlib.Path(script).write_text(private + node(public, names))


if __name__ == "__main__":
    main()
