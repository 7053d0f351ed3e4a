"""The command with which a target's files are compiled, for tests that compile more."""
import json
import pathlib
import re
import shlex


def command_of(commands, target):
    """Compiler and flags with which another file is compiled as one of `target`'s.

    They are those of a file of `target` in `commands`, the path of a compile_commands.json. If that file includes a
    precompiled header which is there, so does the command, with all flags, because a compiler takes a precompiled header
    for its own flags only: LibTorch's headers are then not parsed again. Else the command has the flags for headers,
    macros and the language.
    """
    entry = next(each for each in json.loads(pathlib.Path(commands).read_text())
                 if f"/{target}.dir/" in each["command"] and each["file"].endswith((".cpp", ".cxx")))
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang|gcc)(-[\d.]+)?$", pathlib.Path(word).name))
    words = words[start:]
    if any(pathlib.Path(f"{word}.gch").exists() for word in words if word.endswith("cmake_pch.hxx")):
        return without_files(words)
    command, i = [words[0]], 1
    while i < len(words):
        if words[i] in ("-I", "-isystem", "-D"):
            command += words[i:i + 2]
            i += 1
        elif words[i].startswith(("-I", "-isystem", "-D", "-std=")):
            command.append(words[i])
        i += 1
    return command


def without_files(words):
    """The command without the file that it reads and those that it writes."""
    command, i = [], 0
    while i < len(words):
        if words[i] in ("-o", "-c", "-MF", "-MT", "-MQ"):
            i += 1
        elif words[i] not in ("-MD", "-MMD"):
            command.append(words[i])
        i += 1
    return command
