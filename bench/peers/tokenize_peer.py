"""Peers of `lockstep bench tokenize`: Hugging Face's tokenizers and tiktoken, on one thread.

    tokenize_peer.py SYSTEM TOKENIZER_FOLDER LINES_FILE IDS_FILE ROUNDS

Encodes the lines of a file ROUNDS times, without special tokens, and prints {"version", "seconds": [...]}; the ids of
all lines, one after the other, go to IDS_FILE as 32-bit little-endian numbers. Exit code 3: SYSTEM is not installed.
"""
import array
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def hugging_face(folder):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # The fast form leaves out offsets; ids are read from its objects, as every user must read them.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    return tokenizers.__version__, lambda lines: [e.ids for e in encode(lines, add_special_tokens=False)]


def tiktoken(folder):
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    with open(os.path.join(folder, "vocab.json"), encoding="utf-8") as file:
        ids = json.load(file)
    plain = os.path.join(folder, "plain_vocab.json")
    with open(plain, "w", encoding="utf-8") as file:
        json.dump({token: i for token, i in ids.items() if token != "<|endoftext|>"}, file)
    ranks = data_gym_to_mergeable_bpe_ranks(os.path.join(folder, "merges.txt"), plain)
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
    encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return getattr(tiktoken, "__version__", "?"), lambda lines: [encoding.encode_ordinary(line) for line in lines]


def main():
    system, folder, lines_file, ids_file, rounds = sys.argv[1:]
    try:
        version, encode = {"tokenizers": hugging_face, "tiktoken": tiktoken}[system](folder)
    except ImportError:
        sys.exit(3)
    with open(lines_file, encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")[:-1]
    seconds = []
    for _ in range(int(rounds)):
        start = time.perf_counter()
        ids = encode(lines)
        seconds.append(time.perf_counter() - start)
    flat = array.array("i", (i for line in ids for i in line))
    with open(ids_file, "wb") as file:
        file.write(flat.tobytes())
    print(json.dumps({"version": version, "seconds": seconds}))


main()
