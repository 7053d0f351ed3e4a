"""Runs the tests of a configured build, and ends with what one wants to know: which skipped, and which failed and why.

usage: run_ctest.py BUILD_FOLDER [argument of ctest...]     as in run_ctest.py build/release -R '^comm'

Exits with ctest's status; with 2 if it does not understand its arguments.
"""
import os
import pathlib
import shutil
import subprocess
import sys


def refuse(problem):
    print(f"{__doc__.strip()}\n\nrun_ctest.py: {problem}", file=sys.stderr)
    sys.exit(2)


arguments = sys.argv[1:]
if arguments and arguments[0] in ("-h", "--help"):
    print(__doc__.strip())
    sys.exit()
if not arguments or arguments[0].startswith("-"):
    refuse("the first argument is the build folder")
tests = pathlib.Path(__file__).resolve().parent
build = pathlib.Path(arguments[0]).resolve()
if not (build / "CTestTestfile.cmake").exists():
    refuse(f"{build} is not configured with tests: cmake --preset release -DLOCKSTEP_TESTS=ON")
shutil.rmtree(build / "test-results", ignore_errors=True)  # of an earlier run, perhaps of tests that are gone
(build / "Testing").mkdir(exist_ok=True)
for name in ("junit.xml", "ctest.log"):
    (build / "Testing" / name).unlink(missing_ok=True)
command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--timeout", "1800"]
command += ["--output-junit", build / "Testing" / "junit.xml", "--output-log", build / "Testing" / "ctest.log"]
# One more than there are cores: entries that compute count for two (PROCESSORS in CMakeLists.txt), and one that waits
# fits beside them.
settings = {"GTEST_BRIEF": "1", "CTEST_PARALLEL_LEVEL": str(len(os.sched_getaffinity(0)) + 1)}
status = subprocess.run(command + arguments[1:], env={**settings, **os.environ}).returncode
print(flush=True)
for script in ("list_skips.py", "list_failures.py"):
    status = subprocess.run([sys.executable, tests / script, build]).returncode or status
sys.exit(status)
