"""Checks the rules by which check_lessons.py compares numbers, without running a lesson; that each lesson answers its
exercises and ends with links to its neighbours; and that each example which trains is seeded, because LibTorch starts
from a random seed otherwise, and no page could show its numbers."""
import pathlib
import sys

import check_lessons
import lesson_links


def differs(expected, printed, tolerance=0.0, measured=False):
    return bool(check_lessons.compare([expected], [printed], tolerance, measured)[0])


def main():
    trace = ["step 4: 12.34 ms, loss 0.7", "  step   device   begin ms   ms", "  forward    cpu:0   0.025   3.900   0 bytes"]
    late = trace + ["  update     cpu:0   12.200   1.400   0 bytes"]
    memory = "float32  1 optimizer      417.6 MiB   417.6 MiB   417.6 MiB           -    1.18 GiB    "
    bench = ["training step                       ms  samples/s   times"]
    wanted = [
        differs("Loss: 0.1763", "Loss: 0.1364"),
        not differs("Loss: 0.1763", "Loss: 0.1763"),
        not differs("Loss: 0.1763", "Loss: 0.17629"),  # the page shows fewer digits
        not differs("Loss: 0.1763", "Loss: 0.1800", tolerance=0.05),
        differs("Loss: 0.1763", "Loss: 0.2", tolerance=0.05),
        differs("rank 1 of 2", "rank 2 of 2", tolerance=0.05),
        not differs("'eval_runtime': 0.1897, 'epoch': 1.0", "'eval_runtime': 7.2, 'epoch': 1.0"),
        differs("'eval_runtime': 0.1897, 'epoch': 1.0", "'eval_runtime': 0.1897, 'epoch': 2.0"),
        not differs("in batches of 32: 700 texts a second", "in batches of 32: 9 texts a second"),
        differs("800 texts on 1 replica(s)", "700 texts on 1 replica(s)"),
        not differs("data-parallel 2 466.704 68.6", "data-parallel 2 700.1 40.0", measured=True),
        differs("12.34 ms, loss 0.7123", "13.0 ms, loss 0.6342", measured=True),
        differs("reduce 11.2 0.9 17.5 MB", "reduce 8.0 0.7 2.9 MB", measured=True),
        not check_lessons.compare(["Loss: 0.4", "Loss: 0.6"], ["Loss: 0.6", "Loss: 0.4"], 0, False)[0],  # of two ranks
        check_lessons.compare(["Loss: 0.4", "Loss: 0.4"], ["Loss: 0.6", "Loss: 0.4"], 0, False)[0],
        check_lessons.compare(["a 1", "b 2"], ["b 2", "a 1"], 0, False)[0],
        not differs("difference: 2.1e-06", "difference: 3.3e-06"),
        not check_lessons.errors_in_sums("", trace),
        check_lessons.errors_in_sums("", late),
        not check_lessons.errors_in_sums("", [memory + "2.41 GiB"]),
        check_lessons.errors_in_sums("", [memory + "3.41 GiB"]),
        not check_lessons.errors_in_sums("bench --batch 8 --seq 32", bench + ["one replica     20.0      400.0    1.00"]),
        check_lessons.errors_in_sums("bench --batch 8 --seq 32", bench + ["one replica     20.0      500.0    1.00"]),
    ]
    sources = pathlib.Path(__file__).parents[2].glob("examples/*.cpp")
    trains = {path.name: path.read_text() for path in sources if "backward(" in path.read_text()}
    unseeded = sorted(name for name, text in trains.items() if "manual_seed(" not in text and "set_seed(" not in text)
    if unseeded or len(trains) < 8:
        sys.exit(f"not seeded: {unseeded}, of {sorted(trains)}")
    lonely = lesson_links.without()
    if lonely:
        sys.exit(f"no links to their neighbours at the end, which tests/docs/lesson_links.py writes: {[page.name for page in lonely]}")
    unanswered = lesson_links.without_answers()
    if unanswered:
        sys.exit(f"exercises and answers are not of one number: {[page.name for page in unanswered]}")
    wrong = [i for i, holds in enumerate(wanted) if not holds]
    sys.exit(f"rules that do not hold: {wrong}" if wrong else 0)


main()
