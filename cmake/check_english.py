"""Fails if documentation, comments or messages have one of the habits that docs/design/style.md lists under "How sentences
look".

The patterns find the worst cases, not all of them. They must find what that section's examples say not to write, and leave
alone what it says to write. Code is not searched: fences, indented blocks and `spans` of Markdown, and in sources all but
comments and string literals.

usage: check_english.py PROJECT_FOLDER
"""
import pathlib
import re
import sys

START = r"(?:^|(?<=[.;:!?] )|(?<=\n)|(?<=\| )|(?<=[-*] ))"  # of a sentence, a paragraph, a cell, a list item
VERB = r"(?:does|do|did|is|are|was|has|have|had|knows|waits|wants|asks|comes|calls|reads|holds|gets|gives|needs|takes)"

# In the order of docs/design/style.md: the habit, how to reword it, patterns.
RULES = [
    ("a clause as the subject", 'name the subject: not "who does not is lost", but "a host that does not answer is lost"',
     r"\b[Ww]ho(?:ever)? (?:does|do) not\b",
     START + rf"Who(?:ever)? {VERB}\b[^?.;]*(?![^?.;]*\?)",
     START + r"What (?:is|was|are|were) [^.?;:]*? (?:is|are|was|were|can|cannot|has|have) [^.?;:]*[.;]"),
    ('"none" or "no" as the predicate', 'say what it is not: not "a line is none", but "a line is not a JSON object"',
     r"(?<!\b[Tt]here )\b(?:is|are|was|were|be) none\b(?! of\b)",
     r"(?<!\b[Tt]here )\b(?:is|are|was|were) no "
     r"(?!(?:reason|fault|harm|chance|longer|more|less|matter|later|other|larger|smaller|slower|faster|lower|better|worse|way)\b)"),
    ('a fragment that begins with "Of"', 'write the whole sentence: not "Of an output", but "Computes the loss of an output"',
     START + r"Of [a-z`]"),
    ('"where" for a condition', 'write if or when: not "null where there is none", but "null if there is none"',
     r"@throws \w+\s+where\b|\b(?:null|empty|false|refused|throws|fails),? where (?!the file)|[,;] where (?:they|it) fails?\b",
     r"\b[Nn]othing where\b|; where (?:it is|they are|there)\b|(?:^|[,.;] )[Ww]here (?:that is possible|there (?:is|are))\b",
     r"\bwhere (?:not|none|there is none|that fails|it cannot|they cannot|they are not|there is no)\b"),
    ("a verb of travel or speech", "use the plain verb: arrive, continue, start over, distinguish, in silence",
     r"\banew\b|\bbegins? with nothing\b|\ball have come\b|\bcomes? by (?:itself|themselves)\b",
     r"\b(?:goes|went|going) on\b|\b(?:can|cannot|to) go on(?! the)\b(?!,)|\bgo on (?:from|with|without|as|after|by)\b",
     r"\b(?:[Tt]old|[Tt]ells?) apart\b|\bwithout a word\b|\b(?:is|are|was|were) told that\b"),
    ("a comparison without its noun", 'repeat the noun: not "that of the lowest rank", but "the lowest rank\'s error"',
     r"[:;,] (?:that|those) of (?!which\b)[^.,;:]*(?:[.;]|$)",
     r"\bthe same again\b"),
    ("a word that is translated", 'write the usual word: not "data alone" but "only the data", not "mend" but "correct"',
     r"\b[Mm]end(?:s|ed|ing)?\b(?!  )|\bparted\b|\bfor want of\b|\b[Ff]rom (?:its|their) source again\b|\b[Kk]nows? no\b",
     r"\b(?:comes?|stands?) twice\b|\b[Ll]ooks? whether\b|\b(?:rank|host)s? that (?:is|are) lost\b",
     r"\b[Ss]o many (?!of\b)(?:\w+ ){0,2}?(?:blocks|files|hosts|ranks|rows|samples|seconds|steps)\b(?![^.;:]*\bthat\b)",
     r"\b(?:data|equal chunks|one host|one rank|some ranks?|tables|tensors|texts|Linux) alone\b",
     r"\b(?:Lockstep|which \w+) has not\b(?! (?:\w+(?:ed|en)|read|set)\b)"),
    ("a message without a verb", 'say what is wrong: not "--seq with --model mlp", but "--seq cannot be combined with --model mlp"',
     r"^(?:--[a-z-]+|[a-z0-9]+(?:_[a-z0-9]+)+)(?: (?!is|are|was|has|have|had|needs?|can|cannot|must)[\w{}-]+)? with(?:out)?"
     r"(?: [^ ,:]+){1,3}(?:[,:]|$)",
     r"^(?:--[a-z-]+|[a-z0-9]+(?:_[a-z0-9]+)+) and [\w-]+ both$"),
]
RULES = [(habit, advice, re.compile("|".join(patterns), re.M)) for habit, advice, *patterns in RULES]

# What the patterns must find besides docs/design/style.md's examples, and what they must leave alone; in the rules' order.
FOUND = [["What is read can be written."], ["\"{}\" is no tensor", "labels that are no classes",
                                          "this is no YAML"], ["Of sockets, by inode."],
         ["nothing where it may", "Where there is none, ranks share.", "the report, where it fails"],
         ["the rank goes on", "write the file anew", "there is nothing to tell apart", "the host is told that it is lost"], [],
         ["texts parted by a tab", "take the file from its source again", "a kernel that knows no such call",
          "the key comes twice", "it looks whether the group has ended", "a host that is lost starts no process",
          "take so many rows at random", "a torch dynamo, which Lockstep has not"],
         ["save_strategy best without evaluations", "bf16_full and fp16 both", "--trace with --survive-lost-ranks"]]
RIGHT = [["What is a rank?", "What is there"], ["There is no such file.", "which is no longer true", "it is no reason to stop"],
         ["One of sockets."], ["it stays where it is", "the folder where the files are"], ["go on, try it"], [],
         ["so many hosts are silent that the others continue", "which Lockstep has not read yet", "a process that is alone"],
         ["--seq cannot be combined with --model mlp", "virtual_shards is used with one rank", "a rank without a device"]]

project = pathlib.Path(sys.argv[1])
PAGES = ["*.md", "data/*.md", "docs/**/*.md"]
PRINTED = {"docs/failures.md"}  # by a program, whose source is searched
FOLDERS = ("include", "src", "tools", "bench", "examples", "fuzz", "tests")
TOKEN = re.compile(r"""//[^\n]* | /\*.*?\*/ | R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"
                       | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'""", re.S | re.X)


def paragraphs_of_page(text):
    """(line number, text) of each paragraph, list item and table row."""
    def blank(match):
        return re.sub(r"[^\n]", "", match.group())
    text = re.sub(r"<!--.*?-->", blank, re.sub(r"^```.*?^```", blank, text, flags=re.M | re.S), flags=re.S)
    paragraph, first = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        begins = re.match(r"\s*(?:[-*]|\d+\.) |\||#", line)
        if paragraph and (begins or not line.strip()):
            yield first, re.sub(r"`[^`]*`", "`code`", " ".join(paragraph))
            paragraph = []
        is_code = line.startswith("    ") and not paragraph and not begins
        if line.strip() and not is_code:
            first = first if paragraph else number
            paragraph.append(line.strip())


def words_of(token):
    """What a comment or a string literal says; "" for a character."""
    if token.group("raw") is not None:
        return token.group("raw")
    text = token.group()
    if text.startswith("//"):
        return re.sub(r"^//[/!]?<?\s*", "", text)
    if text.startswith("/*"):
        return text[2:-2]
    return text[1:-1].replace('\\"', '"').replace("\\n", "\n") if text.startswith('"') else ""


def paragraphs_of_source(code):
    """(line number, text) of each run of comments, or of string literals, with nothing but white space between them."""
    run, first, is_comment, end = "", 0, None, 0
    for token in TOKEN.finditer(code):
        between, kind = code[end:token.start()], token.group().startswith("/")
        if run and kind == is_comment and not between.strip() and between.count("\n") <= 1:
            run += (" " if kind else "") + words_of(token)
        else:
            yield first, run
            run, first, is_comment = words_of(token), code.count("\n", 0, token.start()) + 1, kind
        end = token.end()
    yield first, run


def places_in(path, paragraphs):
    for line, text in paragraphs:
        for habit, advice, pattern in RULES:
            for found in pattern.finditer(text):
                shown = " ".join(text[max(0, found.start() - 40):found.end() + 40].split())
                yield f"{path}:{line}: {habit}: ...{shown}...\n    {advice}"


def faults_of_rules():
    """Examples that the rules judge otherwise."""
    section = (project / "docs/design/style.md").read_text().split("\n## How sentences look\n")[1]
    examples = re.findall(r"^\d\. .*\n +not +(.*)\n +but +(.*)$", section, re.M)
    if len(examples) != len(RULES):
        yield f"docs/design/style.md has {len(examples)} examples of sentences, and cmake/check_english.py {len(RULES)} rules"
    for (bad, good), (habit, _, pattern) in zip(examples, RULES):
        if not pattern.search(bad):
            yield f"{habit}: cmake/check_english.py does not find docs/design/style.md's example: {bad}"
        yield from places_in("docs/design/style.md", [(0, good)])
    for found, right, (habit, _, pattern) in zip(FOUND, RIGHT, RULES):
        yield from (f"{habit}: cmake/check_english.py does not find: {text}" for text in found if not pattern.search(text))
        yield from places_in("cmake/check_english.py", [(0, text) for text in right])


def main():
    errors, checked = list(faults_of_rules()), 0
    for pattern in PAGES:
        for page in sorted(project.glob(pattern)):
            path = page.relative_to(project)
            if str(path) not in PRINTED:
                errors += places_in(path, paragraphs_of_page(page.read_text()))
                checked += 1
    for folder in FOLDERS:
        for file in sorted(file for file in (project / folder).rglob("*") if file.suffix in (".h", ".cpp")):
            errors += places_in(file.relative_to(project), paragraphs_of_source(file.read_text()))
            checked += 1
    if not checked:
        errors.append(f"{project}: no file found, so nothing was checked")
    print(f"{checked} files checked")
    sys.exit("\n".join(errors) or 0)


main()
