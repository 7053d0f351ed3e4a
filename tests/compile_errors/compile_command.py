"""The command with which a target's files are compiled, for tests that compile more."""
import json
import pathlib
import re
import shlex


def command_of(commands, target):
    """Compiler and flags for headers, macros and the language, without those of a precompiled header.

    They are those of a file of `target` in `commands`, the path of a compile_commands.json.
    """
    entry = next(each for each in json.loads(pathlib.Path(commands).read_text())
                 if f"/{target}.dir/" in each["command"] and each["file"].endswith((".cpp", ".cxx")))
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang|gcc)(-[\d.]+)?$", pathlib.Path(word).name))
    command, i = [words[start]], start + 1
    while i < len(words):
        if words[i] in ("-I", "-isystem", "-D"):
            command += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-isystem", "-D", "-std=")):
            command.append(words[i])
        i += 1
    return command
