#!/usr/bin/env python3
"""Draws the pictures of the lessons and of the pages on design, as SVG, into this folder or the one that is named.

    python3 docs/lessons/pictures/draw.py [FOLDER]
"""
import csv
import json
import pathlib
import re
import sys

from picture import DATA, EMPTY, GRADIENTS, GREY, STATE, THIN, WEIGHTS, WIDE, WORK, Picture

SHIPPED = pathlib.Path(__file__).resolve().parents[3] / "data"


def data_parallel():
    """One batch through DataParallel: the parts of a step in their order."""
    picture = Picture("One batch through DataParallel: one process, two devices", 860, 250)
    steps = [("scatter", 0), ("broad-\ncast", 0), ("forward", 2), ("gather", 0), ("loss", 0), ("scatter", 0),
             ("backward", 2), ("reduce", 2), ("update", 0)]
    widths = {"forward": 104, "backward": 108, "reduce": 80}
    fills = {"broad-\ncast": WEIGHTS, "update": WEIGHTS, "reduce": GRADIENTS, "backward": GRADIENTS}
    x = 90
    for device, y in (("device 0", 70), ("device 1", 140)):
        picture.text(16, y + 26, device, bold=True)
    for name, devices in steps:
        width = widths.get(name, 64)
        fill = fills.get(name, DATA if name in ("scatter", "gather") else WORK)
        if devices == 2:
            picture.box(x, 70, width, 42, f"{name}\nfirst half", fill, size=12)
            picture.box(x, 140, width, 42, f"{name}\nsecond half", fill, size=12)
        else:
            picture.box(x, 70, width, 42, name, fill, size=12)
            picture.box(x, 140, width, 42, "waits", EMPTY, size=11, dashed=True)
        x += width + 6
    picture.arrow(90, 205, x - 6, 205)
    picture.text(90, 228, "time: both devices work in forward, backward and reduce; in the other parts one works and the"
                 " other waits", size=12, color=GREY)
    return picture


def parallel_loss():
    """A step of DataParallel beside one in which each replica computes its own loss."""
    picture = Picture("Where the loss is computed: DataParallel, and the parallel loss", 860, 400)
    ways = (("DataParallel: outputs are gathered, and one device computes the loss",
             (("forward", WORK, "forward"), ("gather\noutputs", DATA, ""), ("loss", WORK, "waits"),
              ("scatter its\ngradient", DATA, ""), ("backward", GRADIENTS, "backward"))),
            ("Parallel loss: each replica computes the loss of its own chunk",
             (("forward", WORK, "forward"), ("own loss", WORK, "own loss"), ("gather sum\nand count", DATA, ""),
              ("backward", GRADIENTS, "backward"))))
    for row, (title, parts) in enumerate(ways):
        top = 62 + row * 152
        picture.text(16, top, title, bold=True)
        for device in range(2):
            picture.text(16, top + 42 + device * 56, f"device {device}")
        x = 90
        for first, fill, second in parts:
            width = 130 if first in ("forward", "backward") else 96
            if second:
                picture.box(x, top + 16, width, 44, first, fill, size=12)
                waits = second == "waits"
                picture.box(x, top + 72, width, 44, second, EMPTY if waits else fill, size=12, dashed=waits)
            else:  # between the devices
                picture.box(x, top + 16, width, 100, first, fill, size=12)
            x += width + 8
        picture.text(x + 10, top + 58, ("GPT-2, 8 texts of\n128 tokens: 206 MB\neach way",
                                        "any model:\n24 bytes gathered")[row], size=12, color=GREY)
    picture.text(16, 372, "The sums are divided by the counts once, so the loss is the whole batch's for any chunks.", size=12,
                 color=GREY)
    return picture


def ddp():
    """One batch through DistributedDataParallel: each rank does all parts, and gradients meet during backward."""
    picture = Picture("One batch through DistributedDataParallel: two processes", 860, 300)
    for rank, y in ((0, 70), (1, 170)):
        picture.text(16, y + 26, f"rank {rank}", bold=True)
        picture.box(90, y, 110, 42, "own batch\nfrom sampler", DATA, size=12)
        picture.box(208, y, 130, 42, "forward, loss", WORK, size=12)
        picture.box(346, y, 230, 42, "backward", WORK, size=12)
        picture.box(664, y, 110, 42, "update", WEIGHTS, size=12)
    for index, x in enumerate((386, 454, 522)):
        picture.box(x, 124, 62, 34, f"bucket {index}", GRADIENTS, size=11)
        picture.arrow(x + 31, 112, x + 31, 123)
        picture.arrow(x + 31, 170, x + 31, 159)
    picture.arrow(584, 141, 690, 114)
    picture.arrow(584, 141, 690, 168)
    picture.text(622, 146, "averages", size=12, color=GREY)
    picture.arrow(90, 240, 774, 240)
    picture.text(90, 263, "time: a bucket is averaged as soon as both ranks have filled it, while backward computes the"
                 " gradients of earlier layers;\nafter backward a rank waits only for the averages that are not there yet",
                 size=12, color=GREY)
    return picture


def all_reduce():
    """An all-reduce in shared memory: each rank sums one slice of all buffers, into all buffers."""
    picture = Picture("All-reduce in shared memory: each rank sums its slice of all buffers, into all buffers", 860, 340)
    values = ((1, 2, 3, 4), (10, 20, 30, 40))
    for column, (title, rows, done) in enumerate((
            ("1. Each rank has its gradients in memory\nthat all ranks of the host can read", values, ()),
            ("2. Rank 0 sums the first half,\nrank 1 the second half, at once", ((11, 22, 3, 4), (10, 20, 33, 44)),
             ((0, 0), (0, 1), (1, 2), (1, 3))),
            ("3. Each writes its sums into both buffers:\none pass, nothing is sent", ((11, 22, 33, 44),) * 2,
             tuple((r, c) for r in range(2) for c in range(4))))):
        left = 20 + column * 280
        picture.text(left, 64, title, size=13)
        for rank in range(2):
            y = 110 + rank * 90
            picture.text(left, y - 6 if rank == 0 else y + 56, f"buffer of rank {rank}", size=12, color=GREY)
            for place in range(4):
                fill = GRADIENTS if (rank, place) not in done else WEIGHTS if place < 2 else STATE
                picture.box(left + place * 60, y, 56, 40, str(rows[rank][place]), fill)
        if column == 1:
            picture.arrow(left + 28, 200, left + 28, 152)
            picture.arrow(left + 88, 200, left + 88, 152)
            picture.arrow(left + 148, 150, left + 148, 198)
            picture.arrow(left + 208, 150, left + 208, 198)
    picture.box(20, 278, 18, 14, fill=WEIGHTS)
    picture.text(46, 290, "summed by rank 0", size=12)
    picture.box(180, 278, 18, 14, fill=STATE)
    picture.text(206, 290, "summed by rank 1", size=12)
    picture.text(20, 318, "An average divides by the number of ranks in the same pass. A ring, as libraries for networks use"
                 " it,\nwould copy every slice from rank to rank.", size=12, color=GREY)
    return picture


def buckets():
    """Buckets over backward's time, from a trace of `lockstep run --trace`."""
    trace = json.loads((pathlib.Path(__file__).parent / "buckets-trace.json").read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    named = {event["name"]: event for event in events}
    backward, update = named["backward"], named["update"]
    waits = [event for event in events if event["name"].startswith("wait for bucket")]
    numbers = sorted(event["args"]["bucket"] for event in events if event["name"].startswith("bucket"))
    begin, end = backward["ts"], update["ts"] + update["dur"]
    left, width, row = 110, 730, 34
    picture = Picture("Buckets during backward, as a trace of rank 0 of two shows them", 860, 150 + row * len(numbers))

    def span(event, y, words="", fill=WORK, dashed=False):
        x = left + (event["ts"] - begin) / (end - begin) * width
        picture.box(x, y, max(1.5, event["dur"] / (end - begin) * width), row - 6, words, fill, size=12, dashed=dashed)

    picture.text(16, 68, "rank 0", bold=True)
    waiting = {"ts": waits[0]["ts"], "dur": waits[-1]["ts"] + waits[-1]["dur"] - waits[0]["ts"]}
    span({"ts": begin, "dur": waiting["ts"] - begin}, 48, f"backward, {(waiting['ts'] - begin) / 1000:.0f} ms")
    span(waiting, 48, "waits", EMPTY, dashed=True)
    span(update, 48, "", WEIGHTS)
    for place, number in enumerate(numbers):
        y = 48 + row * (place + 1)
        picture.text(16, y + 19, f"bucket {number}")
        for event in events:
            if event["args"].get("bucket") != number:
                continue
            if event["name"].startswith("waits for rank"):
                fits = event["dur"] / (end - begin) > 0.12
                span(event, y, event["name"] if fits else "waits", EMPTY, dashed=True)
            elif event["name"] == "transfer":
                span(event, y, "", GRADIENTS)
    picture.text(16, 48 + row * (len(numbers) + 1) + 24,
                 "Gradients appear from the last layer to the first. A full bucket waits until the other rank has it"
                 " too, then it travels (orange)\nwhile backward computes on. Only what rank 0 waits for at the end"
                 " costs it time; then it updates (blue).", size=12, color=GREY)
    return picture


def memory_column(picture, x, y, title, copies):
    """A process: boxes for what it holds. `copies`: (words, fill, share of the whole)."""
    picture.text(x + 56, y - 8, title, size=12, anchor="middle", color=GREY)
    for words, fill, share in copies:
        height = 44
        picture.box(x, y, 112, height, "", EMPTY, dashed=True)
        if share > 0:
            picture.box(x, y, 112 * share, height, "", fill)
        rows = words.count("\n")  # in the coloured part, if there is one
        picture.text(x + 56 * (share or 1), y + 26 - 8 * rows, words, size=12, anchor="middle")
        y += height + 6


def memory():
    """What lies where on one host with two replicas, for each way."""
    picture = Picture("What one host holds for two replicas, with Adam", 860, 330)
    whole = [("weights", WEIGHTS, 1), ("gradients", GRADIENTS, 1), ("optimizer state", STATE, 1)]
    picture.text(20, 62, "DataParallel: one process", bold=True)
    memory_column(picture, 20, 94, "device 0", whole)
    memory_column(picture, 140, 94, "device 1", [("reads device 0's", EMPTY, 0), ("gradients", GRADIENTS, 1),
                                                 ("nothing", EMPTY, 0)])
    picture.text(310, 62, "DDP: two processes", bold=True)
    memory_column(picture, 310, 94, "rank 0", whole)
    memory_column(picture, 430, 94, "rank 1", whole)
    picture.text(600, 62, "DDP with fuse: two processes", bold=True)
    memory_column(picture, 600, 94, "rank 0", [("", EMPTY, 0), ("gradients", GRADIENTS, 1), ("half the\nstate", STATE, .5)])
    memory_column(picture, 720, 94, "rank 1", [("", EMPTY, 0), ("gradients", GRADIENTS, 1), ("half the\nstate", STATE, .5)])
    picture.box(600, 94, 232, 44, "one copy of the weights", WEIGHTS, size=12)
    picture.text(20, 272, "On CPUs the replicas of DataParallel read one copy of the weights; on GPUs each device gets a copy in"
                 " every step.\nWith fuse, ranks of one host share one copy: each updates its part of it and keeps the state of"
                 " that part only.", size=12, color=GREY)
    return picture


def zero_stages():
    """ZeRO's stages on four ranks."""
    picture = Picture("ZeRO's stages: what each of four ranks keeps", 860, 310)
    stages = (("0: DDP", 1, 1, 1), ("1: state", 1, 1, .25), ("2: and gradients", 1, .25, .25),
              ("3: and weights", .25, .25, .25))
    for index, (title, weights, gradients, state) in enumerate(stages):
        x = 20 + index * 208
        picture.text(x, 64, f"stage {title}", bold=True)
        y = 80
        for words, fill, share in (("weights", WEIGHTS, weights), ("gradients", GRADIENTS, gradients),
                                   ("optimizer state", STATE, state)):
            picture.box(x, y, 190, 40, "", EMPTY, dashed=True)
            picture.box(x, y, 190 * share, 40, "", fill)
            if share == 1:
                picture.text(x + 95, y + 25, words, size=12, anchor="middle")
            else:
                picture.text(x + 190 * share + 8, y + 25, words, size=12)
            y += 46
    picture.text(20, 246, "Full boxes: every rank has all of it. Quarter boxes: every rank has a quarter, and the parts are"
                 " collected when they are needed.", size=12, color=GREY)
    picture.text(20, 268, "Lockstep has stages 0, 1 (ddp.fuse), 2 (shard_grad_op) and 3 (full_shard);\nlockstep"
                 " estimate-memory computes all four.", size=12, color=GREY)
    return picture


def inference():
    """Replicas that were made once, and batches that are cut, answered and put together again."""
    picture = Picture("Inference: the model is replicated once; each batch is scattered, applied and gathered", 860, 330)
    picture.text(20, 62, "once", bold=True)
    picture.box(90, 46, 90, 34, "model", WEIGHTS)
    picture.arrow(180, 63, 268, 63)
    picture.text(190, 56, "replicate", size=12, color=GREY)
    picture.box(270, 46, 110, 34, "replica 0", WEIGHTS)
    picture.box(390, 46, 110, 34, "replica 1", WEIGHTS)
    picture.text(20, 122, "for every\nbatch", bold=True)
    for text in range(4):
        picture.box(90, 104 + text * 34, 90, 28, f"text {text}", DATA, size=12)
        replica = text // 2
        x = 270 + replica * 120
        picture.box(x, 104 + text * 34, 110, 28, f"text {text}", DATA, size=12)
        picture.arrow(182, 118 + text * 34, x - 2, 118 + text * 34)
        picture.box(660, 104 + text * 34, 110, 28, f"answer {text}", STATE, size=12)
        picture.arrow(x + 112, 118 + text * 34, 658, 118 + text * 34)
    for x, words in ((196, "scatter"), (340, "apply: both at once"), (560, "gather")):
        picture.text(x, 262, words, size=13, bold=True)
    picture.text(20, 290, "No gradient is kept and nothing is shuffled, so the answers have the order of the texts. A forward of"
                 " DataParallel does\nthe same three steps; on GPUs it first looks whether the weights have changed.",
                 size=12, color=GREY)
    return picture


def shares_of_evaluation():
    """Seven texts on three ranks: each text once, and back in the order of the file."""
    picture = Picture("Seven texts on three ranks: every text once, then back in the order of the file", 860, 290)
    texts, ranks, fills = 7, 3, (WEIGHTS, GRADIENTS, STATE)
    picture.text(20, 66, "file", bold=True)
    for text in range(texts):
        picture.box(120 + text * 84, 48, 76, 30, f"text {text}", fills[text % ranks], size=12)
    for rank in range(ranks):
        y = 104 + rank * 36
        picture.text(20, y + 19, f"rank {rank}", bold=True)
        for place, text in enumerate(range(rank, texts, ranks)):
            picture.box(120 + place * 84, y, 76, 30, f"text {text}", fills[rank], size=12)
    picture.text(20, 238, "answers", bold=True)
    for text in range(texts):
        picture.box(120 + text * 84, 220, 76, 30, f"answer {text}", fills[text % ranks], size=12)
    picture.text(120, 274, "Rank 0 has one text more than the others. Nothing is repeated, so no answer counts twice.", size=12,
                 color=GREY)
    return picture


def shipped_rows(name):
    """The rows of a CSV file of the project's data."""
    with open(SHIPPED / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def word_pieces(text):
    """The tokens of `text`: words and marks in lower case, each cut into the longest pieces of the shipped vocabulary."""
    vocabulary = set((SHIPPED / "reviews-vocab" / "vocab.txt").read_text(encoding="utf-8").split("\n"))
    pieces = []
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            end = next(end for end in range(len(word), begin, -1) if mark + word[begin:end] in vocabulary)
            pieces.append(mark + word[begin:end])
            begin = end
    return pieces


def sentence_pair():
    """The first shipped pair of sentences that fits on the page, as BERT reads it."""
    for row in shipped_rows("pairs.csv"):
        first, second = (word_pieces(row[column]) for column in ("premise", "hypothesis"))
        if len(first) + len(second) <= 22:
            break
    tokens = [("[CLS]", 0)] + [(token, 0) for token in first] + [("[SEP]", 0)]
    tokens += [(token, 1) for token in second] + [("[SEP]", 1), ("[PAD]", None), ("[PAD]", None)]
    picture = Picture("A pair of sentences as BERT reads it", 860, 330)
    picture.text(20, 62, f"premise: {row['premise']}\nhypothesis: {row['hypothesis']}\nlabel: {row['label']}", size=13)
    widths = [max(34, 8 * len(token) + 10) for token, _ in tokens]
    x, y = 20, 126
    picture.text(x, y - 8, "tokens, and below each its segment (token_type_ids) and whether it is text (attention_mask)",
                 size=12, color=GREY)
    for (token, segment), width in zip(tokens, widths):
        if x + width > 840:
            x, y = 20, y + 76
        fill = EMPTY if segment is None else DATA if segment else WEIGHTS
        picture.box(x, y, width, 28, token, fill, size=12, dashed=segment is None)
        picture.text(x + width / 2, y + 44, f"{segment or 0} {0 if segment is None else 1}", size=12, anchor="middle",
                     color=GREY)
        x += width + 4
    picture.text(20, y + 76, "[CLS] collects what the classifier reads. The segments show BERT where the second sentence"
                 " begins.\n[PAD] fills the shorter pairs of a batch; its mask is 0, so no attention goes there.", size=12,
                 color=GREY)
    return picture


def parallel_context():
    """From any launcher to a context, and from the context to equal gradients."""
    picture = Picture("One context, whatever started the ranks", 860, 280)
    for index, (launcher, variables) in enumerate((("lockstep run, torchrun", "RANK, WORLD_SIZE"),
                                                   ("mpirun", "OMPI_COMM_WORLD_RANK"),
                                                   ("srun", "SLURM_PROCID"))):
        y = 56 + index * 56
        picture.box(20, y, 190, 44, f"{launcher}\nsets {variables}", DATA, size=11)
        picture.arrow(212, y + 22, 268, 134)
    picture.box(270, 112, 150, 44, "ParallelContext\nfrom_env()", WORK, size=12)
    picture.arrow(422, 134, 468, 134)
    picture.box(470, 56, 150, 44, "ready(model, context)\nequal weights", WEIGHTS, size=12)
    picture.box(470, 112, 150, 44, "get_local_rank(Data)\nthis rank's texts", DATA, size=12)
    picture.box(470, 168, 150, 44, "get_world_size(Data)\nnumber of shares", DATA, size=12)
    picture.arrow(622, 78, 668, 120)
    picture.arrow(622, 134, 668, 134)
    picture.arrow(622, 190, 668, 148)
    picture.box(670, 112, 170, 44, "plain loop: backward\naverages gradients", GRADIENTS, size=12)
    picture.text(20, 250, "The model stays a plain model: it is called, saved and updated under its own name. The context holds"
                 " what connects the ranks.", size=12, color=GREY)
    return picture


def nodes():
    """Two launchers, the store that one of them serves, and four ranks."""
    picture = Picture("Two nodes with two ranks each", 860, 330)
    for node in range(2):
        x = 30 + node * 420
        picture.box(x, 48, 380, 190, "", EMPTY)
        picture.text(x + 12, 70, f"node {node}", bold=True)
        picture.box(x + 80, 62, 190, 40, f"lockstep run --node-rank {node}", WORK, size=12)
        for local in range(2):
            left = x + 20 + local * 180
            picture.box(left, 150, 160, 56, f"rank {node * 2 + local} of 4\nlocal rank {local} of 2", WEIGHTS, size=12)
            picture.arrow(x + 175, 102, left + 80, 148)
        picture.text(x + 190, 228, "shared memory inside a node", size=12, anchor="middle", color=GREY)
    picture.box(314, 62, 86, 40, "store", STATE, size=12)
    picture.arrow(300, 82, 313, 82)
    picture.arrow(530, 82, 402, 82)
    picture.arrow(412, 192, 448, 192)
    picture.arrow(448, 164, 412, 164)
    picture.text(430, 264, "between nodes: the network", size=12, anchor="middle", color=GREY)
    picture.text(30, 294, "Node 0's launcher serves the store, at --master-addr and --master-port: launchers and ranks meet"
                 " there.\nA rank counts over all nodes, a local rank on its own node.", size=12, color=GREY)
    return picture


def joined():
    """Two ranks with three and five batches, with join."""
    picture = Picture("Three batches on rank 0, five on rank 1: join", 860, 260)
    counts = (3, 5)
    for rank, count in enumerate(counts):
        y = 60 + rank * 90
        picture.text(16, y + 26, f"rank {rank}", bold=True)
        for step in range(max(counts)):
            x = 90 + step * 128
            if step < count:
                picture.box(x, y, 118, 42, f"batch {step + 1}", DATA)
            else:
                picture.box(x, y, 118, 42, "zeros", EMPTY, dashed=True)
            if rank == 0:
                picture.arrow(x + 59, y + 44, x + 59, y + 88)
                picture.arrow(x + 59, y + 88, x + 59, y + 44)
                picture.text(x + 66, y + 70, "average", size=11, color=GREY)
    picture.box(90 + 5 * 128, 60, 110, 132, "rank 0 takes\nthe weights\nof rank 1", WEIGHTS, size=12)
    picture.text(90, 222, "A rank that has no batch left takes part in each average with zeros, so that no rank waits for ever."
                 "\nIn the end all ranks have the weights and the optimizer's state of a rank that finished last.", size=12,
                 color=GREY)
    return picture


def accumulation():
    """Two windows of two micro-batches on two ranks."""
    picture = Picture("Accelerator: two ranks, two micro-batches for each update", 860, 270)
    for rank in range(2):
        y = 60 + rank * 70
        picture.text(16, y + 26, f"rank {rank}", bold=True)
        for window in range(2):
            x = 90 + window * 370
            for micro in range(2):
                picture.box(x + micro * 126, y, 118, 42, f"micro-batch {window * 2 + micro + 1}\nbackward",
                            GRADIENTS if micro else WORK, size=12)
            picture.box(x + 262, y, 84, 42, "update", WEIGHTS, size=12)
    for window in range(2):
        x = 90 + window * 370
        picture.arrow(x + 185, 104, x + 185, 128)
        picture.arrow(x + 185, 128, x + 185, 104)
        picture.text(x + 59, 205, "no message", size=12, anchor="middle", color=GREY)
        picture.text(x + 185, 205, "average", size=12, anchor="middle", color=GREY)
    picture.text(90, 240, "Inside accumulate(model), step, clipping and the schedule do nothing until the last micro-batch of a"
                 " window.", size=12, color=GREY)
    return picture


def padding():
    """Two batches of the shipped reviews, padded to a fixed length and to the longest of each batch."""
    lengths = [len(word_pieces(row["review"])) + 2 for row in shipped_rows("reviews.csv")[:16]]  # [CLS] and [SEP], too
    picture = Picture("The first 16 reviews, 8 a batch: padded to 128 tokens, or to the longest of the batch", 860, 330)
    for column, fixed in enumerate((128, None)):
        left, computed = 20 + column * 430, 0
        for batch in range(2):
            texts = lengths[batch * 8:batch * 8 + 8]
            width = fixed or max(texts)
            for place, length in enumerate(texts):
                y = 76 + batch * 108 + place * 12
                picture.box(left, y, width * 3, 10, "", EMPTY, dashed=True)
                picture.box(left, y, length * 3, 10, "", DATA)
                computed += width
        picture.text(left, 62, f"{'fixed' if fixed else 'dynamic'} padding: {sum(lengths)} tokens of text,"
                     f" {computed} computed", size=13, bold=True)
    picture.text(20, 306, "One line is one review; dashed: [PAD]. A padded place costs as much time as a word.", size=12,
                 color=GREY)
    return picture


def negatives():
    """Which texts each anchor of two ranks is compared with."""
    picture = Picture("Two ranks with three pairs each: every anchor beside every positive", 860, 350)
    size, left, top = 62, 250, 70
    for row in range(6):
        rank = row // 3
        picture.text(left - 16, top + row * 38 + 24, f"anchor {row + 1}", anchor="end")
        picture.text(left + row * size + size / 2, top - 10, f"positive {row + 1}", size=11, anchor="middle")
        for column in range(6):
            own, local = row == column, rank == column // 3
            picture.box(left + column * size, top + row * 38, size - 4, 34, "own" if own else "",
                        GRADIENTS if own else DATA if local else WEIGHTS, size=12)
    for rank in range(2):
        picture.text(16, top + rank * 114 + 62, f"rank {rank}", bold=True)
    picture.box(640, 92, 24, 20, "", GRADIENTS)
    picture.text(674, 107, "the pair itself: near", size=12)
    picture.box(640, 124, 24, 20, "", DATA)
    picture.text(674, 139, "negatives of this rank", size=12)
    picture.box(640, 156, 24, 20, "", WEIGHTS)
    picture.text(674, 171, "negatives of the other rank,\nwhich all_gather brings", size=12)
    picture.text(16, 320, "A row is one anchor's question: which positive is mine? Gradients flow back to the rank whose"
                 " texts a column belongs to.", size=12, color=GREY)
    return picture


def shards_on_hosts():
    """What two ranks on each of two hosts keep with Lockstep, in stages 0 to 3, to scale."""
    picture = Picture("Two hosts with two ranks each, Adam: what one host holds, in copies of the weights", 860, 430)
    weights, gradients, sums = ("weights", WEIGHTS, 1), ("gradients", GRADIENTS, 1), ("sums", GRADIENTS, .5)
    state, pool = ("state", STATE, 1), ("pool", WORK, .25)
    rows = (("stage 0: DDP", [weights] * 2 + [gradients] * 2 + [state] * 4),
            ("stage 1: fuse", [weights] + [gradients] * 2 + [sums, state]),
            ("stage 2: shard_grad_op", [weights, sums, state, pool]),
            ("stage 3: full_shard", [("weights", WEIGHTS, .5), sums, state, ("layers", WORK, .43)]))
    left, unit, top = 198, 74, 56
    for index, (title, parts) in enumerate(rows):
        y = top + index * 74
        picture.text(16, y + 28, title, bold=True)
        x = left
        for words, fill, copies in parts:
            width = copies * unit
            picture.box(x, y, width, 44, words if copies == 1 else "", fill, size=12)
            if copies < 1:  # too narrow for its name
                picture.text(x + width / 2, y + 58, words, size=10, anchor="middle", color=GREY)
            x += width
        total = sum(copies for _, fill, copies in parts if fill != WORK)
        picture.text(x + 12, y + 27, f"{total:g} copies" + ("", "", " and the pool", ", the pool and some layers")[index], color=GREY)
    picture.text(16, 370, "A whole box is one copy of all weights in fp32; Adam's state is two. From stage 1 on the ranks of"
                 " a host share one copy of the weights,\nand all ranks share out the optimizer's state. In stage 2 a small"
                 " pool of memory takes each bucket's gradients in turn. In stage 3 a rank\nkeeps its share of the weights"
                 " and the layers that are being computed. Activations, each rank's own, are not in the picture.", size=12,
                 color=GREY)
    return picture


def kill_it():
    """The losses of two runs, as their metrics.jsonl had them: kill-it-losses.csv."""
    with open(pathlib.Path(__file__).parent / "kill-it-losses.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    left, top, width, height = 70, 60, 770, 220
    steps, losses = int(rows[-1]["step"]), [float(row["undisturbed"]) for row in rows]
    lowest, highest = min(losses), max(losses)
    picture = Picture("The loss of each step, undisturbed and with two ranks killed", 860, 350)

    def place(step, loss):
        return (left + (int(step) - 1) / (steps - 1) * width,
                top + (highest - float(loss)) / (highest - lowest) * height)

    for part in range(5):
        loss = lowest + (highest - lowest) * part / 4
        picture.text(left - 10, place(1, loss)[1] + 4, f"{loss:.2f}", size=12, anchor="end")
        picture.curve([place(1, loss), place(steps, loss)], WORK, 1)
    for column, color, line in (("undisturbed", WIDE, 5), ("killed", THIN, 1.2)):
        picture.curve([place(row["step"], row[column]) for row in rows], color, line)
    for row in rows:
        if row["kill"]:
            x = place(row["step"], lowest)[0]
            picture.curve([(x, top - 8), (x, top + height)], GREY, 1)
            picture.text(x + 4, top - 2, f"kill -9 of rank {row['kill']}", size=12, color=GREY)
    picture.text(left, top + height + 20, "step 1", size=12)
    picture.text(left + width, top + height + 20, f"step {steps}", size=12, anchor="end")
    picture.text(16, top + height + 48, "Orange and wide: the undisturbed run. Blue and thin: the run whose ranks were"
                 " killed. Every number of one is that of the other.", size=12, color=GREY)
    return picture


def one_update():
    """A bucket in a fused step: two ranks that share one copy of the weights, each owner of a half."""
    picture = Picture("One bucket in one fused step: each rank updates the half that it owns, in one pass", 860, 420)
    for rank, left in enumerate((20, 660)):
        picture.text(left, 66, f"rank {rank}", bold=True)
        for half in range(2):
            picture.box(left, 80 + half * 70, 180, 44, f"gradients of half {half}", GRADIENTS, size=12)
        picture.text(left, 264, "its state alone", size=12, color=GREY)
        picture.box(left, 272, 180, 44, f"Adam's averages of half {rank}", STATE, size=12)
    for half in range(2):
        x, y = 300 + half * 134, 84 + half * 70
        picture.box(x, y, 126, 36, f"rank {half}: add,\nclip, update", WORK, size=12)
        picture.arrow(202, y + 18, x - 2, y + 18)
        picture.arrow(658, y + 18, x + 128, y + 18)
        picture.arrow(x + 63, y + 38, x + 63, 232)
        picture.box(x, 234, 126, 44, f"weights {half}\nfp32", WEIGHTS, size=12)
        picture.box(x, 284, 126, 32, f"copy {half} in bf16", WEIGHTS, size=12, dashed=True)
    picture.text(430, 336, "shared memory: one copy for all ranks", size=12, color=GREY, anchor="middle")
    picture.text(20, 366, "The owner of a half reads both ranks' gradients where backward left them, its own part of the"
                 " optimizer's state, and the weights.\nIt writes the new weights and, for forwards in bf16, their copy."
                 " Nothing is sent: the next forward of each rank reads what both\nhave written. Between hosts, sums travel"
                 " to the owner, and new weights to the other hosts.", size=12, color=GREY)
    return picture


PICTURES = {"data-parallel": data_parallel, "parallel-loss": parallel_loss, "ddp": ddp, "all-reduce": all_reduce,
            "buckets": buckets, "memory": memory, "zero-stages": zero_stages, "inference": inference,
            "shares-of-evaluation": shares_of_evaluation, "sentence-pair": sentence_pair,
            "parallel-context": parallel_context, "nodes": nodes, "join": joined, "accumulation": accumulation,
            "padding": padding, "negatives": negatives, "shards-on-hosts": shards_on_hosts, "kill-it": kill_it,
            "one-update": one_update}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
