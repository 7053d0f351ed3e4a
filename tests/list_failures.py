"""Lists the tests that failed in the last run of run_ctest.py, with what they said: list_failures.py BUILD_FOLDER

ctest shows a folder of tests as one entry. This names the tests inside it, with the first lines of their messages; the
test during which a process was killed or ran out of time; and what other programs printed last.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

MESSAGE_LINES = 9  # of the first failure of each test
OUTPUT_LINES = 12  # of a program that left no results
TESTS_PER_ENTRY = 20
PROJECT = str(pathlib.Path(__file__).resolve().parent.parent) + "/"


def indented(lines):
    return [f"      {line}".rstrip().replace(PROJECT, "") for line in lines]


def skips_itself(entry):
    """An entry that ended with its SKIP_RETURN_CODE; list_skips.py has its reason."""
    skip = entry.find("skipped")
    return skip is not None and skip.get("message", "").startswith("SKIP_")


def failed_tests(results):
    """Lines on the tests that failed in one file of results."""
    failed = [test for test in xml.parse(results).iter("testcase") if test.find("failure") is not None]
    lines = []
    for test in failed[:TESTS_PER_ENTRY]:
        lines.append(f"    {test.get('classname')}.{test.get('name')}")
        message = test.find("failure").get("message", "").strip().split("\n")
        lines += indented(message[:MESSAGE_LINES] + (["..."] if len(message) > MESSAGE_LINES else []))
    if len(failed) > TESTS_PER_ENTRY:
        lines.append(f"    and {len(failed) - TESTS_PER_ENTRY} more, in {results}")
    return lines


def failed_entry(build, name, output):
    """Lines on an entry of ctest that failed."""
    results = build / "test-results" / f"{name}.xml"
    running = results.with_suffix(".running")
    last = output.strip().split("\n")[-OUTPUT_LINES:]
    if running.exists():
        return [f"    {running.read_text().strip()}: the process ended during this test, and printed last"] + indented(last)
    lines = failed_tests(results) if results.exists() else []
    if lines:
        return lines
    where = "every test passed, and then the process failed; it" if results.exists() else "it"
    return [f"    {where} printed last"] + indented(last)


def main():
    build = pathlib.Path(sys.argv[1])
    record = build / "Testing" / "junit.xml"
    if not record.exists():
        sys.exit(f"{record} is missing: run the tests with tests/run_ctest.py")
    # ctest's record has no reason such as Timeout or SEGFAULT; the list at the end of its log has.
    log = (build / "Testing" / "ctest.log").read_text(errors="replace").split("The following tests FAILED:")[-1]
    reasons = dict(re.findall(r"^\s*\d+ - (\S+) \(([^)]*)\)", log, re.MULTILINE))
    entries = list(xml.parse(record).iter("testcase"))
    failed = [entry for entry in entries if entry.get("status") in ("fail", "notrun") and not skips_itself(entry)]
    for entry in failed:
        name = entry.get("name")
        print(f"  {name} ({reasons.get(name, 'Failed')}, {float(entry.get('time')):.0f} s)")
        print("\n".join(failed_entry(build, name, entry.findtext("system-out") or "")))
    print(f"{len(failed)} of {len(entries)} entries of ctest failed: " + " ".join(entry.get("name") for entry in failed)
          if failed else f"all {len(entries)} entries of ctest passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
