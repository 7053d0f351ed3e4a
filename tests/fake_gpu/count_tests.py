#!/usr/bin/env python3
"""Counts the tests labelled gpu in the results of their last run: count_tests.py BUILD_FOLDER WHERE

Prints which tests skipped and why, and last one line with how many ran, on how many devices. WHERE is a part of that
line, such as "8 fake devices".
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as xml


def main():
    folder, where = pathlib.Path(sys.argv[1]) / "test-results", sys.argv[2]
    ran, skipped, failed = collections.Counter(), collections.defaultdict(list), 0
    for file in sorted(folder.glob("gpu_*.xml")):
        for test in xml.parse(file).iter("testcase"):
            skips = [skip.get("message", "") for skip in test.iter("skipped")]
            devices = [int(each.get("value")) for each in test.iter("property") if each.get("name") == "devices"]
            failed += test.find("failure") is not None
            if skips:  # the first line is file and line
                reason = " ".join(skips[0].split("\n")[1:]).strip()
                skipped[reason].append(f"{test.get('classname')}.{test.get('name')}")
            else:
                ran[devices[0] if devices else 0 if file.stem == "gpu_fake" else -1] += 1
    for reason, tests in sorted(skipped.items()):
        print(f"  skipped: {reason}: {', '.join(tests)}")
    others = {0: "of the fake devices' own rules", -1: "of programs and commands"}
    parts = [f"{count} {others.get(devices, f'on {devices}')}" for devices, count in sorted(ran.items())]
    print(f"{sum(ran.values())} tests ran on {where}: {', '.join(parts)}; "
          f"{failed} failed, {sum(map(len, skipped.values()))} skipped")


if __name__ == "__main__":
    main()
