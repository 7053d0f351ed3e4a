"""Lists the tests that skipped in the last run of ctest, with their reasons: list_skips.py BUILD_FOLDER

ctest shows a folder of tests as one entry, which passes though some of its tests did not run. Fails if a test skipped
and LOCKSTEP_NO_SKIPS is 1.
"""
import os
import pathlib
import sys
import xml.etree.ElementTree as xml

from list_failures import skips_itself

results = sorted((pathlib.Path(sys.argv[1]) / "test-results").glob("*.xml"))
skipped, run = [], 0
for file in results:
    for test in xml.parse(file).iter("testcase"):
        run += 1
        for skip in test.iter("skipped"):
            reason = " ".join(skip.get("message", "").split("\n")[1:]).strip()  # the first line is file and line
            skipped.append(f"{file.stem}: {test.get('classname')}.{test.get('name')}: {reason or 'no reason given'}")
record = pathlib.Path(sys.argv[1]) / "Testing" / "junit.xml"
for entry in xml.parse(record).iter("testcase") if record.exists() else ():
    if skips_itself(entry):  # a program of another kind, without results
        run += 1
        skipped.append(f"{entry.get('name')}: {(entry.findtext('system-out') or '').strip() or 'no reason given'}")
print(f"{len(skipped)} of {run} tests in {len(results)} entries of ctest skipped" + (":" if skipped else ""))
print("\n".join(f"  {line}" for line in skipped))
if skipped and os.environ.get("LOCKSTEP_NO_SKIPS") == "1":
    sys.exit("LOCKSTEP_NO_SKIPS is 1: install what they name, or set LOCKSTEP_TEST_DATA to the folder of the data")
