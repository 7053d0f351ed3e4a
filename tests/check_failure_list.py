"""Checks what list_failures.py says about tests that fail, are killed, or fail at exit: check_failure_list.py PROGRAM

It also checks that scripts which begin hours of work print their usage instead, if they are asked wrongly.

PROGRAM is built from tests/programs/ending_tests.cpp; ctest itself runs it here, in a folder of its own.
"""
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent


def run(program, entries):
    """Status and last lines of run_ctest.py over entries: name -> filter, or a command."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        lines = []
        for name, what in entries.items():
            command = what if isinstance(what, list) else [
                program, f"--gtest_filter={what}", f"--gtest_output=xml:{build}/test-results/{name}.xml"]
            lines.append(f"add_test({name} " + " ".join(f"[==[{word}]==]" for word in command) + ")")
            if name == "lacks":
                lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)")
        (build / "CTestTestfile.cmake").write_text("\n".join(lines))
        done = subprocess.run([sys.executable, TESTS / "run_ctest.py", build], capture_output=True, text=True)
        return done.returncode, done.stdout[done.stdout.find(" tests in "):]


def check(status, end, want_status, *wanted):
    missing = [line for line in wanted if line not in end]
    if missing or (status != 0) != want_status:
        sys.exit(f"status {status}, and not found: {missing}\nin:\n{end}")


program = sys.argv[1]
check(*run(program, {"fine": "Passes.*:Skips.*", "alone": "Passes.First",
                     "lacks": ["sh", "-c", "echo no such program here; exit 77"]}), False,
      "Skips.Always: no such thing here", "lacks: no such program here", "all 3 entries of ctest passed")
status, end = run(program, {"fine": "Passes.*", "wrong": "Passes.*:Fails.*", "killed": "IsKilled.*", "late": "ExitsLate.*",
                            "nothing": "Nowhere.*", "script": ["sh", "-c", "echo a broken rule; exit 3"],
                            "absent": ["/nowhere/program"]})
check(status, end, True,
      "  wrong (Failed", "    Fails.Twice\n", "the first reason",
      "  killed (Subprocess killed", "    IsKilled.BySignal: the process ended during this test",
      "  late (Failed", "every test passed, and then the process failed",
      "  nothing (Failed", "No test matches the filter 'Nowhere.*'",
      "  script (Failed", "a broken rule",
      "  absent (Not Run", "Unable to find executable",
      "6 of 7 entries of ctest failed: wrong killed late nothing script absent")
assert "Passes" not in end and "  fine" not in end, end
with tempfile.TemporaryDirectory() as no_build:
    for script in ([sys.executable, TESTS / "run_ctest.py"], [TESTS.parent / "scripts" / "test-long"]):
        helped = subprocess.run([*script, "--help"], capture_output=True, text=True)
        assert helped.returncode == 0 and "BUILD_FOLDER" in helped.stdout, helped
        for words in ([], ["--hlep"], [no_build]):
            refused = subprocess.run([*script, *words], capture_output=True, text=True)
            assert refused.returncode == 2 and "BUILD_FOLDER" in refused.stderr, refused
print("what failed is named, and what did not is not")
