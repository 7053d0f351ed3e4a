#!/usr/bin/env python3
"""Writes reviews.csv and pairs.csv, and -test.csv of both, beside itself, from the phrases in reviews-phrases.txt.

    python3 data/make_reviews.py [--train 4000] [--test 800] [--seed 1] [--output FOLDER]

A review has an opinion in stars, and is built for it: opening, statements, verdict. What makes it more than a bag of
words is how statements are put: a complaint may be quoted to be denied ("It is not true that the lid drips"), praise
may be faint, or outweighed by what follows. No two reviews are made of the same statements, within a file or across.
A pair is a premise like a review and a hypothesis that follows from it, contradicts it, or does neither.
The same arguments give the same files on any Python 3.6 or newer.
"""
import argparse
import csv
import os
import re

from review_frames import (BALANCED, BLAME_BY_DENIAL, FAINT, FILLERS, MOSTLY_BAD, MOSTLY_GOOD, PRAISE_BY_DENIAL, VERDICTS,
                           VERDICTS_OF)

HERE = os.path.dirname(os.path.abspath(__file__))
DIVISION = {1: "negative", 2: "negative", 3: "neutral", 4: "positive", 5: "positive"}
DENIED = 45  # percent of the one-sided statements that deny the opposite, where they can
VERDICT = {1: 35, 2: 45, 3: 65, 4: 45, 5: 35}  # percent of the reviews that end in one
SHARES = [(1, 19), (2, 17), (3, 22), (4, 20), (5, 22)]


class Random:
    """SplitMix64, so that the files do not depend on Python's version."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return (z ^ (z >> 31)) % n

    def chance(self, percent):
        return self.below(100) < percent

    def choose(self, items):
        return items[self.below(len(items))]

    def sample(self, items, count):
        items = list(items)
        for i in range(count):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]
        return items[:count]


LINKS = ["Also, ", "Besides, ", "What is more, ", "And ", "Honestly, ", "To begin with, ", "In short, ", "So far "]
SHORTER = [(r"\bdo not\b", "don't"), (r"\bdoes not\b", "doesn't"), (r"\bcannot\b", "can't"), (r"\bcould not\b", "couldn't"),
           (r"\bwould not\b", "wouldn't"), (r"\bIt is\b", "It's"), (r"(?<!ing )\bit is\b", "it's"), (r"\bI have (?=[a-z]+(ed|n)\b)", "I've "),
           (r"\bI would\b", "I'd"), (r"\bI will\b", "I'll"), (r"\bI am\b", "I'm"), (r"\bdid not\b", "didn't")]
# A statement about what happened to the writer cannot be what others claim.
PERSONAL = re.compile(r"\b(I|my|me|we|our|us|was|were|had|has|have|did|came|went|took|gave|forgot|left|broke|split|fell|stood|woke|"
                      r"arrived|lasted|charged|pushed|kept|washed|fined|flew|snapped|cracked|failed|made|cut|hurt|turned|spent|"
                      r"repaired|wrapped|wiped|rubbed|slipped|cost|never|nobody|nothing|next|hardly|would|yesterday's)\b")


def read_topics(path):
    topics, aspect = [], None
    for line in open(path, encoding="utf-8"):
        line = line.strip()
        if line.startswith("== "):
            kind, name = line[3:].split(" ", 1)
            topics.append({"kind": kind, "name": name, "open": [], "aspects": []})
            aspect = None
        elif line.startswith("open: "):
            topics[-1]["open"].append(line[6:])
        elif line[:2] in ("+ ", "- "):
            if aspect is None:
                aspect = {"+": [], "-": []}
                topics[-1]["aspects"].append(aspect)
            aspect[line[0]].append(line[2:])
        elif not line:
            aspect = None
    return topics


def capital(text):
    return text[0].upper() + text[1:]


def plain(rng, statement):
    """One statement as a sentence, and whether it took a link in front."""
    if rng.chance(15):
        link = rng.choose(LINKS)
        return link + statement + "."
    return capital(statement) + "."


def one_sided(rng, aspect, good):
    """A sentence that praises (or blames), sometimes by denying the opposite. Also what it was made of."""
    own, other = ("+", "-") if good else ("-", "+")
    claims = [s for s in aspect[other] if not PERSONAL.search(s)]
    if claims and rng.chance(DENIED):
        claim = rng.choose(claims)
        return rng.choose(PRAISE_BY_DENIAL if good else BLAME_BY_DENIAL).format(claim), "not " + claim
    statement = rng.choose(aspect[own])
    return plain(rng, statement), statement


def two_sided(rng, frames, good_aspect, bad_aspect):
    good, bad = rng.choose(good_aspect["+"]), rng.choose(bad_aspect["-"])
    frame = rng.choose(frames)
    used = tuple(s for s, field in ((good, "ood}"), (bad, "ad}")) if field in frame)
    return frame.format(good=good, bad=bad, Good=capital(good), Bad=capital(bad)), used


def statements(rng, topic, stars):
    """The sentences that carry the opinion, and the set of what they are made of."""
    aspects = rng.sample(topic["aspects"], 5)
    out = []
    if stars in (1, 5):
        for aspect in aspects[:1 + rng.below(3)]:
            out.append(one_sided(rng, aspect, stars == 5))
    elif stars in (2, 4):
        for aspect in aspects[:1 + rng.below(2)]:
            out.append(one_sided(rng, aspect, stars == 4))
        frames = MOSTLY_GOOD if stars == 4 else MOSTLY_BAD
        out.insert(rng.below(len(out) + 1), two_sided(rng, frames, aspects[3], aspects[4]))
    else:
        if rng.chance(60):
            out.append(two_sided(rng, BALANCED, aspects[0], aspects[1]))
        if not out or rng.chance(45):
            out.append(two_sided(rng, FAINT, aspects[2], aspects[3]))
    used = set()
    for _, made_of in out:
        used.update([made_of] if isinstance(made_of, str) else made_of)
    return [sentence for sentence, _ in out], frozenset(used)


def review(rng, topic, stars):
    body, used = statements(rng, topic, stars)
    parts = []
    if rng.chance(55):
        parts.append(rng.choose(topic["open"]))
    if rng.chance(20):
        parts.append(rng.choose(FILLERS[topic["kind"]]))
    parts += body
    if rng.chance(VERDICT[stars]):
        verdict = rng.choose(VERDICTS[VERDICTS_OF.get(topic["kind"], topic["kind"]), stars])
        if stars in (1, 5) and rng.chance(15):
            verdict = verdict[:-1] + "!"
        parts.insert(0 if parts == body and rng.chance(30) else len(parts), verdict)
    text = " ".join(parts)
    if rng.chance(45):
        for pattern, short in SHORTER:
            text = re.sub(pattern, short, text)
    if topic["name"].endswith(("phones", "shoes")):
        text = about_several(text)
    return text, used


def about_several(text):
    """The verdicts and fillers say `it`; headphones and shoes are `they`."""
    for pattern, other in [
            (r"\bIt has\b", "They have"), (r"\bit has\b", "they have"), (r"\bIt does what it should\b", "They do what they should"),
            (r"\bit never claimed\b", "they never claimed"), (r"\bIt(?:'s| is) all right\b", "They are all right"),
            (r"\bIt goes back\b", "They go back"), (r"\bIt took a while\b", "They took a while"), (r", and it did\b", ", and they did"),
            (r"\bIt arrived\b", "They arrived"), (r"\bIt was the last one\b", "They were the last ones"),
            (r"\bIt cost about\b", "They cost about"), (r"\bI have already ordered another\b", "I have already ordered another pair"),
            (r"\b(swap|bought|recommend|buy|Buy|regretted|love|hate|have had|take|keep|found|enjoyed|save|spoil|say for|say against) it\b", r"\1 them"),
            (r"\b(about|used to|for|from|with) it\b", r"\1 them"), (r"\bsend it back\b", "send them back"), (r"\bwant one too\b", "want some too"),
            (r"\bWhether it is\b", "Whether they are"), (r"\bWhether it's\b", "Whether they're"), (r"\bits favour\b", "their favour")]:
        text = re.sub(pattern, other, text)
    return text


def make(count, topics, rng):
    stars_of = [stars for stars, share in SHARES for _ in range(share)]
    rows, texts, made_of = [], set(), set()
    while len(rows) < count:
        topic, stars = rng.choose(topics), rng.choose(stars_of)
        text, used = review(rng, topic, stars)
        if text in texts or (used, stars) in made_of and (len(used) > 1 or rng.chance(85)):
            continue
        texts.add(text)
        made_of.add((used, stars))
        rows.append((text, stars, DIVISION[stars]))
    return rows


def claimable(aspect, sign):
    return [statement for statement in aspect[sign] if not PERSONAL.search(statement)]


def pair(rng, topic, label):
    """A premise that asserts or denies a statement, among others, and a hypothesis that follows, contradicts, or neither."""
    aspects = [aspect for aspect in topic["aspects"] if claimable(aspect, "+") and claimable(aspect, "-")]
    if len(aspects) < 3:
        return None
    about, beside, other = rng.sample(aspects, 3)
    sign = rng.choose("+-")
    claim = rng.choose(claimable(about, sign))
    opposite = rng.choose(claimable(about, "-" if sign == "+" else "+"))
    said, denied = plain(rng, claim), rng.choose(BLAME_BY_DENIAL).format(claim)
    sentences = [denied if label == "contradiction" and rng.chance(50) else said]
    hypothesis = claim
    if label == "contradiction" and sentences[0] == said:
        hypothesis = opposite
    if label == "neutral":
        hypothesis = rng.choose(claimable(other, rng.choose("+-")))
        sentences = [rng.choose([said, denied])]
    if rng.chance(50):
        sentences.insert(rng.below(2), one_sided(rng, beside, rng.chance(50))[0])
    if rng.chance(30):
        sentences.insert(0, rng.choose(topic["open"]))
    return " ".join(sentences), capital(hypothesis) + ".", label


def make_pairs(count, topics, rng):
    rows, texts = [], set()
    while len(rows) < count:
        row = pair(rng, rng.choose(topics), rng.choose(["entailment", "neutral", "contradiction"]))
        if row is None or row[:2] in texts:
            continue
        texts.add(row[:2])
        rows.append(row)
    return rows


def write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=HERE)
    args = parser.parse_args()
    topics = read_topics(os.path.join(HERE, "reviews-phrases.txt"))
    reviews = make(args.train + args.test, topics, Random(args.seed))
    pairs = make_pairs((args.train + args.test) // 2, topics, Random(args.seed + 1))
    for name, header, rows, cut in [("reviews", ["review", "stars", "division"], reviews, args.train),
                                    ("pairs", ["premise", "hypothesis", "label"], pairs, args.train // 2)]:
        write(os.path.join(args.output, name + ".csv"), header, rows[:cut])
        write(os.path.join(args.output, name + "-test.csv"), header, rows[cut:])


if __name__ == "__main__":
    main()
