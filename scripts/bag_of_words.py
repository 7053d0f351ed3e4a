#!/usr/bin/env python3
"""What a classifier reaches that sees only which words a text has: naive Bayes and logistic regression.

    scripts/bag_of_words.py [--train data/reviews.csv] [--test data/reviews-test.csv] [--text review] [--label division]

Prints the accuracy on the test file, of the majority guess too. Needs nothing but Python 3.6.
"""
import argparse
import collections
import csv
import math
import os
import random
import re

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def read(path, text, label):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [(re.findall(r"[a-z']+|[!?]", row[text].lower()), row[label]) for row in rows]


def naive_bayes(train, labels):
    counts = {label: collections.Counter() for label in labels}
    for words, label in train:
        counts[label].update(words)
    rows = collections.Counter(label for _, label in train)
    vocabulary = {word for words, _ in train for word in words}
    total = {label: sum(counts[label].values()) + len(vocabulary) for label in labels}

    def score(words, label):
        seen = (word for word in words if word in vocabulary)
        return math.log(rows[label]) + sum(math.log((counts[label][word] + 1) / total[label]) for word in seen)

    return lambda words: max(labels, key=lambda label: score(words, label))


def logistic_regression(train, labels, epochs=25, rate=0.3, decay=1e-5):
    weights = {label: collections.defaultdict(float) for label in labels}

    def scores(words):
        out = {label: sum(weights[label][word] for word in words) for label in labels}
        highest = max(out.values())
        out = {label: math.exp(value - highest) for label, value in out.items()}
        total = sum(out.values())
        return {label: value / total for label, value in out.items()}

    order = [(sorted(set(words)) + [""], label) for words, label in train]
    shuffle = random.Random(0)
    for epoch in range(epochs):
        shuffle.shuffle(order)
        step = rate / (1 + 0.3 * epoch)
        for words, label in order:
            p = scores(words)
            for each in labels:
                gradient = p[each] - (each == label)
                for word in words:
                    weights[each][word] -= step * (gradient + decay * weights[each][word])
    return lambda words: max(labels, key=scores(sorted(set(words)) + [""]).get)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default=os.path.join(DATA, "reviews.csv"))
    parser.add_argument("--test", default=os.path.join(DATA, "reviews-test.csv"))
    parser.add_argument("--text", default="review")
    parser.add_argument("--label", default="division")
    args = parser.parse_args()
    train, test = read(args.train, args.text, args.label), read(args.test, args.text, args.label)
    labels = sorted({label for _, label in train})
    most = collections.Counter(label for _, label in train).most_common(1)[0][0]
    for name, guess in [("majority guess ('%s')" % most, lambda words: most), ("naive Bayes", naive_bayes(train, labels)),
                        ("logistic regression", logistic_regression(train, labels))]:
        right = sum(guess(words) == label for words, label in test)
        print("%-28s %5.1f %%" % (name, 100 * right / len(test)))


if __name__ == "__main__":
    main()
