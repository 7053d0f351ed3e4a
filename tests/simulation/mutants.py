#!/usr/bin/env python3
"""Shows that the simulator can fail: breaks the protocol in one place after the other, and looks for a seed that notices.

    python3 tests/simulation/mutants.py SOURCE BUILD [--seeds N] [--only WORD]

For each mutant a source file of net/worlds is changed, compiled and linked with the simulator of the build folder,
which must have been built. Exits with 1 if a mutant survives N seeds (default: 20000).
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

AGREEMENT, MEMBER, WORLD, STANDING = "world_agreement.cpp", "world_member.cpp", "world.cpp", "member_standing.cpp"

# (what is wrong then, file, what stands there, what stands there instead)
MUTANTS = [
    ("the last proposal counts, not the first", AGREEMENT,
     'store_->compare_set(world_key(step.world.number), "", encode(step.world));',
     "store_->set(world_key(step.world.number), encode(step.world));"),
    ("a member that meets does not look for a newer world", AGREEMENT, "if (values.front()) return {};", ""),
    ("a member that meets does not look for losses", AGREEMENT, "if (world.rank_of(lost) >= 0) return {};",
     "(void)lost;"),
    ("all are there when the first one is", AGREEMENT, "if (meeting.late.empty()) return",
     "if (meeting.late.size() < values.size()) return"),
    ("a member that has slept gives up who was late before it looked again", AGREEMENT, "if (is_last) return meeting;",
     "if (deadline.passed()) return meeting;"),
    ("a silent rank counts as lost", AGREEMENT, "if (!lost.silent) gone.insert(lost.rank);", "gone.insert(lost.rank);"),
    ("who has left is awaited", AGREEMENT, "i < left->size();) {", "i > left->size();) {"),
    ("who leaves overwrites others that left", AGREEMENT, "before.empty() ? std::to_string(self_.global_rank) : ",
     "true ? std::to_string(self_.global_rank) : "),
    ("who was given up counts as there", AGREEMENT, "std::set<int> gone = given_up_;", "std::set<int> gone;"),
    ("requests count as settled at the first look", AGREEMENT, "if (all_are_settled) settled_ = asked;",
     "settled_ = asked;"),
    ("a request that is not complete counts as settled", AGREEMENT, "const bool is_settled = peer && (",
     "const bool is_settled = !peer || ("),
    ("who waits at the door looks at the first world alone", AGREEMENT, "      ++world;\n", ""),
    ("a member proposes although nothing has changed", WORLD, "if (changes) step.kind", "step.kind"),
    ("the lost are proposed again", WORLD, "if (view.gone.count(peer.global_rank) == 0) ", ""),
    ("a rank that stands still is not given up", MEMBER,
     "if (cause.kind == FailureCause::Kind::Timeout && cause.rank >= 0) give_up(cause.rank);", ""),
    ("a rank that was given up is not ended", MEMBER, "peer.pid != self_.pid) links_.end_process",
     "peer.pid < 0) links_.end_process"),
    ("a failed connection is not tried again", MEMBER, "agreement_.next(world_, true, false,",
     "agreement_.next(world_, false, false,"),
    ("who does not arrive is not given up", MEMBER, "    give_up(late.global_rank);\n", ""),
    ("who was given up once counts so forever", MEMBER, "agreement_.heard_of(world_);", ""),
    ("the last proposal counts in a new store, not the first", AGREEMENT,
     'store_->compare_set(world_key(first.number), "", encode(first));',
     "store_->set(world_key(first.number), encode(first));"),
    ("the first one in a new store awaits nobody", AGREEMENT, "if (missing.empty() || is_last) {", "if (true) {"),
    ("the lost are awaited in a new store", AGREEMENT, "if (!told[i] && gone.count(numbers[i]) == 0) missing",
     "if (!told[i]) missing"),
    ("who is let in is not awaited in a new store", AGREEMENT,
     'if (era_ > 0) store_->set(here_key(self_.global_rank), "");', ""),
    ("who was given up before counts so in a new store", AGREEMENT, "given_up_.clear();", ""),
    ("the oldest world counts in a new store", WORLD, "std::max_element(known.begin()",
     "std::min_element(known.begin()"),
    ("who is not there is in the first world of a new store", WORLD, "if (here.count(peer.global_rank) != 0) ", ""),
    ("who does not arrive in a new store is not ended", MEMBER, "    give_up(each.global_rank);\n", ""),
    ("the first rank gives its state, however old", STANDING, "standing.source = static_cast<int>(rank);", ""),
    ("members that differ count as equal", STANDING, "standing.all_equal && members[rank]", "true || members[rank]"),
]


WORLDS = "src/lockstep/net/worlds"


def check_places(source):
    for what, name, old, new in MUTANTS:
        count = (source / WORLDS / name).read_text().count(old)
        if count != 1:
            sys.exit(f"{what}: {name} has {count} times: {old}")


def compile_command(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if "/lockstep_net.dir/" in entry.get("output", entry["command"]):
            words = shlex.split(entry["command"])
            at = words.index("-o")
            del words[at:at + 2]
            del words[words.index("-c"):]
            return words, entry["directory"]
    sys.exit("the build folder does not know lockstep_net")


def link_command(build):
    out = subprocess.run(["ninja", "-C", build, "-t", "commands", "survival_simulator"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    words = shlex.split(out.splitlines()[-1])
    words = words[words.index("&&") + 1:] if words[0] == ":" else words
    return words[:words.index("&&")] if "&&" in words else words


def run(source, build, mutant, folder, seeds):
    what, name, old, new = mutant
    text = (source / WORLDS / name).read_text()
    changed, built, program = folder / name, folder / "mutant.o", folder / "simulator"
    changed.write_text(text.replace(old, new))
    compiler, directory = compile_command(build)
    subprocess.run(compiler + ["-Wno-unused", "-c", changed, "-o", built], check=True, cwd=directory)
    link = link_command(build)
    at = link.index("-o")
    link[at + 1] = str(program)
    link.insert(at, str(built))  # before the library, so that this definition is the first
    subprocess.run(link + ["-Wl,--allow-multiple-definition"], check=True, cwd=build)
    done = subprocess.run([program, "--seeds", str(seeds)], stdout=subprocess.PIPE, text=True, timeout=1800)
    lines = done.stdout.splitlines()
    found = next((line for line in lines if " FAILED: " in line), None)
    print(f"{what}\n    {found or 'NOT FOUND in ' + str(seeds) + ' seeds'}", flush=True)
    return found is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=20000)
    parser.add_argument("--only", default="", help="mutants whose description has this word")
    flags = parser.parse_args()
    check_places(flags.source)
    chosen = [mutant for mutant in MUTANTS if flags.only in mutant[0]]
    survived = 0
    for mutant in chosen:
        with tempfile.TemporaryDirectory() as folder:
            survived += not run(flags.source.resolve(), flags.build.resolve(), mutant, pathlib.Path(folder), flags.seeds)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
