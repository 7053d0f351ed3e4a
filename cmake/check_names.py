"""Fails if two files that a unity build may put into one translation unit each keep a name of their own for two things.

Which files share a batch changes with every new file, so a name must be unique among all files that may share one. That
holds for functions, too: of two overloads in two files, a call such as f({}) may mean another one in a batch than alone.

Nor may it be the name of a type in namespace lockstep: whether that type is in sight depends on the batch, too.

Looked at in every .cpp file: what stands in anonymous namespaces, `static` functions and variables, aliases and `using`
outside of functions, and macros. Two equal aliases are one, and operators may be overloaded. The search knows the style
of this project, not all of C++; `EXAMPLES` at the end say what it must find.
"""
import collections
import pathlib
import re
import sys

ALONE = re.compile(r"kernel|/reduce_\w+\.cpp$")  # compiled by themselves: see SKIP_UNITY_BUILD_INCLUSION
PROGRAMS = {"programs", "workers", "peers", "hosts"}  # folders in which a file is a program, but for the library's
INNER = {("src", "lockstep", "data", "text"), ("tests", "e2e", "launcher"), ("tests", "data", "text")}

NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b\s*(?P<name>[\w:]*)$")
ALIAS = re.compile(r"(?:using|namespace)\s+(\w+)\s*=\s*(.*)", re.S)
USING = re.compile(r"using\s+(?:namespace\s+)?([\w:]+::)?(\w+)$")
TYPE = re.compile(r"(?:struct|class|union|enum(?: class| struct)?) (?:\w+::)*(\w+) ?(?:final\b ?)?(?:$|:[^:]|\{)")
CALLED_MACRO = re.compile(r"[A-Z][A-Z0-9_]*\s*\(")  # TEST(...), and others that declare by themselves
PREFIXES = re.compile(r"(?:template ?<[^;{]*?> ?(?=[a-zA-Z\[])|\[\[.*?\]\]|(?:alignas|__attribute__)\(\)) ?")
NOT_DECLARED = {"extern", "friend", "return", "if", "static_assert", "public", "private", "protected"}


def batch_of(path):
    """The files whose batches are cut anew together: a module of the library, a test binary, a folder of programs."""
    parts = path.parts
    if parts[:2] in (("bench", "tables"), ("bench", "plan"), ("bench", "measure")):
        return "bench/tables"  # a program and its library, which share measure/
    if parts[:2] in (("tools", "slurm"), ("tools", "accelerate")):
        return "tools/slurm"
    depth = 3 if parts[0] == "src" else 2
    return "/".join(parts[: depth + 1] if parts[: depth + 1] in INNER else parts[:depth])


def without_texts(code):
    """`code` with comments left out and literals empty."""
    code = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', '""', code)
    code = re.sub(r"/\*(?:.|\n)*?\*/", " ", code)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', re.sub(r"(?<!:)//.*|(?<=:)//(?=\s).*", "", code))
    return re.sub(r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'", "0", code)


def declarations(code):
    """(namespaces around it, declaration) of all outside of classes and functions; of a body its opening brace alone."""
    spaces, text, depth = [], "", 0
    for part in re.findall(r"[(){};]|[^(){};]+", re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", code, flags=re.M)):
        if depth:
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(part, 0)
            text += "()" if depth == 0 and part == ")" else ""
        elif part == "{" and (match := NAMESPACE.match(text.strip())):
            spaces, text = [*spaces, match["name"]], ""
        elif part == "}":
            spaces = spaces[:-1]
        elif part in ("{", ";"):
            yield spaces, text + part.strip(";")
            text, depth = "", int(part == "{")
        elif part == "(":
            depth = 1
        else:
            text += part


def declared_name(head):
    """The name that stands before the parameters or the value; "" for an operator or a member of a class."""
    head = re.sub(r"\[[^\]]*\]", "", re.split(r"[=({]", head, maxsplit=1)[0]).strip()
    match = re.search(r"[\w&*>][\s&*]+([A-Za-z_]\w*)$", head)
    return match[1] if match and not re.search(r"\boperator\b", head) else ""


def without_angles(text):
    """`text` without the arguments of templates, which may hold parentheses and names."""
    shorter = re.sub(r"(?<=\w)<[^<>;{}]*>", " ", text)
    return text if shorter == text else without_angles(shorter)


def names_in(code):
    """(name, what it is): two files may share a name if both say that it is the same alias."""
    code = without_texts(code)
    undefined = set(re.findall(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", code, re.M))
    for macro in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.M):
        if macro not in undefined:
            yield macro, ""
    for spaces, text in declarations(code):
        text = PREFIXES.sub("", " ".join(text.split()))
        words = text.split()
        if match := ALIAS.match(text):
            yield match[1], match[2]
        elif match := USING.match(text):
            yield match[2], match[0]
        elif words and ("" in spaces or words[0] == "static") and words[0] not in NOT_DECLARED:
            if match := TYPE.match(text):
                yield match[1], ""
            elif not CALLED_MACRO.match(text) and (name := declared_name(without_angles(text))):
                yield name, ""


def types_of_library(root):
    """Types and aliases of namespace lockstep, with the header of each."""
    types = {}
    for folder in ("include", "src"):
        for file in sorted((root / folder).rglob("*.h")):
            for spaces, text in declarations(without_texts(file.read_text())):
                text = PREFIXES.sub("", " ".join(text.split()))
                match = TYPE.match(text) or ALIAS.match(text)
                if spaces == ["lockstep"] and match:
                    types.setdefault(match[1], file.relative_to(root))
    return types


def faults_of_search():
    for code, wanted in EXAMPLES:
        found = [name for name, _ in names_in(code)]
        if found != wanted:
            yield f"cmake/check_names.py finds {found} and not {wanted} in: {code}"


def main(root):
    homes, checked, bad = collections.defaultdict(dict), 0, list(faults_of_search())
    types = types_of_library(root)
    for folder in ("src", "tools", "bench", "tests"):
        for file in sorted((root / folder).rglob("*.cpp")):
            if ALONE.search(str(file)) or folder != "src" and file.parent.name in PROGRAMS:
                continue
            checked += 1
            path = file.relative_to(root)
            for name, meaning in names_in(file.read_text()):
                homes[batch_of(path), name].setdefault(meaning, set()).add(str(path))
                if name in types and not meaning:
                    bad.append(f"{name} stands in {path}, and is a type of {types[name]}: rename one")
    for (_, name), meanings in sorted(homes.items()):
        files = sorted(set().union(*meanings.values()))
        if len(files) > 1 and (len(meanings) > 1 or "" in meanings):
            bad.append(f"{name} stands in {' and in '.join(files)}: rename one")
    if not checked:
        bad.append(f"{root}: no source file found, so nothing was checked")
    if not types:
        bad.append(f"{root}: no type of the library was found")
    print(f"{checked} files, {len(homes)} names checked")
    sys.exit("\n".join(bad) or 0)


EXAMPLES = [  # code, names in it
    ("namespace a {\nnamespace {\nconstexpr int kOne = 1;\nint two(int x) { int y = x; return y; }\n}  // namespace\n}",
     ["kOne", "two"]),
    ("namespace {\nstd::atomic<bool> seen{false};\nthread_local std::function<void(int)> hook;\nconst char* names[] = {0};\n}",
     ["seen", "hook", "names"]),
    ("namespace {\nstruct Row {\n  int a;\n};\nclass B final : public Row {};\nenum class C { kX };\nstruct Forward;\n}",
     ["Row", "B", "C", "Forward"]),
    ("namespace {\ntemplate <typename T>\nstd::vector<T> read(const T& x) {\n  return {x};\n}\nint Row::size() const { }\n}",
     ["read"]),
    ("namespace {\nbool operator==(const A& a, const A& b) { }\n[[noreturn]] void fail(std::string why);\n}", ["fail"]),
    ("namespace {\n__attribute__((target(\"avx2\"))) void fast(int* x) {}\nalignas(64) int table[8];\n}", ["fast", "table"]),
    ("namespace a {\nstatic int count = 0;\nstatic void f() {}\nint seen = 1;\nvoid g() { static int inside = 0; }\n}",
     ["count", "f"]),
    ("namespace fs = std::filesystem;\nusing Clock = std::chrono::steady_clock;\nusing std::string;\nvoid g() { using B = int; }",
     ["fs", "Clock", "string"]),
    ("#define ONE 1\n#define TWO(x) \\\n  { x }\n#undef ONE\nint a = 0;", ["TWO"]),
    ("namespace {\nTEST(Row, IsRead) { int x = 0; }\nconst std::string kText = \"a { b\";  // }\nint after;\n}",
     ["kText", "after"]),
    ("namespace {\nconst std::map<int, Text> kNames{{1, \"a\"}, {2, \"b\"}};\nconst Entry kEntries[] = {{1}, {2}};\nint last(int);\n}",
     ["kNames", "kEntries", "last"]),
]

main(pathlib.Path(sys.argv[1]))
