"""The rule of check_types.py for large classes: a class has at most 30 methods, and one .cpp file defines its members.

A name that is overloaded is one method. Constructors, destructors and operators do not count, and neither do members of
nested types. LARGE names the classes that are larger, and why. It may only shrink: a class there may not grow, and one
that became smaller gets its new numbers, or goes from the list. `EXAMPLES` at the end say what must be found.
"""
import collections
import re

METHODS, FILES = 30, 1
MEMBER = r"^[^\s#}/][^\n;(=]*?\b(?P<owner>\w+(?:::\w+)*)::(?:~?\w+\(|operator)"
NO_METHODS = re.compile(r"(?:using|friend|typedef|static_assert|struct|class|union|enum)\b|,")

# Class: methods, .cpp files, why it is large. 30 and 1 stand for what is small enough.
LARGE = {
    "lockstep::Accelerator": (47, 3, "Hugging Face's methods; preparing and sharding have a file each"),
    "lockstep::AcceleratorState": (30, 4, "one file for replicas, shards and their options each"),
    "lockstep::Communicator": (78, 6, "the field's calls, blocking and not; a file for each kind of call"),
    "lockstep::CsvEncoding": (30, 2, "its JSON has a file"),
    "lockstep::Diagnosis": (30, 2, "its messages have a file"),
    "lockstep::MeshCollectives": (30, 2, "reductions have a file"),
    "lockstep::StoreService": (33, 2, "a function for each request; keys have a file"),
    "lockstep::Tokenizer": (30, 2, "saving has a file"),
    "lockstep::shm::Group": (53, 1, "a function for each of Communicator's calls"),
}


def without_inner(text, pair):
    """`text` with what stands between brackets left out, and the outer brackets kept."""
    kept, depth = [], 0
    for part in re.split(rf"([\{pair[0]}\{pair[1]}])", text):
        depth -= part == pair[1]
        if depth == 0:
            kept.append(part)
        depth += part == pair[0]
    return "".join(kept)


def body_at(code, begin):
    """What stands between the braces of a class whose closing brace is on the opening one's line, or in column 0."""
    line = code[begin:code.find("\n", begin)]
    return line if "}" in line else code[begin:code.find("\n}", begin)]


def methods_of(name, body):
    """The names of the methods that a class's body declares."""
    body = re.sub(r"//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*", "", body, flags=re.S | re.M)
    body = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', "0", body)
    found = set()
    for text in re.split(r";|\{\}", without_inner(body, "{}")):
        text = re.sub(r"^(?:\s*(?:public|private|protected):(?!:)|\s*\[\[[^\]]*\]\]|\s*alignas\([^)]*\))*\s*", "", text)
        while (shorter := re.sub(r"(?<=\w)\s?<[^<>;]*>", "", text)) != text:
            text = shorter
        text = re.sub(r"^template\s+", "", text)
        if NO_METHODS.match(text) or re.search(r"\boperator\b", text):
            continue
        if (match := re.match(r"[^=()]*?(~?\w+)\s*\(", text)) and match.start(1) and match[1].lstrip("~") != name:
            found.add(match[1])
    return found


class Sizes:
    """Collects the classes of files, and says which are too large."""

    def __init__(self, large=None):
        self.large = LARGE if large is None else large
        self.methods, self.homes = {}, collections.defaultdict(set)

    def take_type(self, qualified, body):
        """A class, struct or union, and what stands between its braces."""
        if body.count("(") > METHODS or qualified in self.large:
            self.methods[qualified] = len(methods_of(qualified.split("::")[-1], body))
        else:
            self.methods[qualified] = 0  # few enough

    def take_member(self, spaces, owner, file):
        """A definition of a member in a .cpp file."""
        self.homes["::".join([*spaces, owner])].add(file)

    def faults(self):
        yield from faults_of_rules()
        yield from self.faults_of_sizes()

    def faults_of_sizes(self):
        for name, counted in sorted(self.methods.items()):
            methods, files = max(counted, METHODS), max(len(self.homes[name]), FILES)
            most_methods, most_files, _ = self.large.get(name, (METHODS, FILES, ""))
            size = f"{name} has {counted} methods, and its members are in {len(self.homes[name])} .cpp files"
            if methods > most_methods or files > most_files:
                yield f"{size}; at most {most_methods} and {most_files} are allowed: take a class out of it"
            elif name in self.large and (methods, files) == (METHODS, FILES):
                yield f"{size}, which is small enough: take it from the list in cmake/class_sizes.py"
            elif methods < most_methods or files < most_files:
                yield f"{size}: write {methods}, {files} in the list in cmake/class_sizes.py"
        for name in sorted(set(self.large) - set(self.methods)):
            yield f"{name} is no class any more: take it from the list in cmake/class_sizes.py"


def faults_of_rules():
    for body, wanted in EXAMPLES:
        if (found := sorted(methods_of("A", body))) != wanted:
            yield f"cmake/class_sizes.py finds the methods {found} and not {wanted} in: {body}"
    for (methods, files), listed, wanted in EXAMPLES_OF_LIST:
        sizes = Sizes({} if listed is None else {"a::A": (*listed, "")})
        if methods:
            sizes.take_type("a::A", "".join(f"int f{i}(int);" for i in range(methods)))
        for i in range(files):
            sizes.take_member(["a"], "A", f"{i}.cpp")
        found = " and ".join(sizes.faults_of_sizes())
        if wanted not in found or bool(wanted) != bool(found):
            size = f"{methods} methods in {files} files, listed as {listed}"
            yield f"cmake/class_sizes.py says '{found}' of {size}"


EXAMPLES = [  # what stands between a class's braces, its methods
    ("void f();\n  void f(int x) const;\n static int g() { return h(); }\n  int x_ = k();", ["f", "g"]),
    (" public:\n  explicit A(int x) : x_{x} {}\n  ~A() override;\n  A& operator=(A) = delete;\n private:\n  int x;",
     []),
    ("std::function<void(int)> f_;\n  std::map<int, B<int, bool>> g(std::function<int()> x= [] { return 1; });",
     ["g"]),
    ("template <typename T, typename = std::enable_if_t<(T::kOne > 1)>>\n  T f(T x) {\n    if (x) return g(x);\n  }",
     ["f"]),
    ("struct B {\n    void f();\n };\n  using C = void (A::*)(int);\n  friend void g(A&);\n  enum D { kX };\n  B b();",
     ["b"]),
    ("[[nodiscard]] bool f() const;  // not g()\n  /* int h(); */ virtual void do_f(char c = '{') = 0;", ["do_f", "f"]),
    ("void (*f_)(int) = 0;\n  alignas(64) std::atomic<int> x_{0};\n  const B& b(const char* x = \"f(\") const;",
     ["b"]),
]

EXAMPLES_OF_LIST = [  # methods and files of a class, how it is listed, what is said
    ((30, 1), None, ""),
    ((31, 1), None, "at most 30 and 1"),
    ((31, 0), None, "at most 30 and 1"),
    ((2, 2), None, "at most 30 and 1"),
    ((40, 3), (40, 3), ""),
    ((41, 3), (40, 3), "at most 40 and 3"),
    ((35, 4), (40, 3), "at most 40 and 3"),
    ((39, 3), (40, 3), "write 39, 3"),
    ((40, 2), (40, 3), "write 40, 2"),
    ((5, 3), (40, 3), "write 30, 3"),
    ((29, 2), (30, 2), ""),
    ((30, 1), (40, 3), "small enough"),
    ((0, 0), (40, 3), "no class any more"),
]
