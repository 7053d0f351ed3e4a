#!/usr/bin/env python3
"""Writes fixture/splits.json and fixture/splits_unicode.txt: how Hugging Face's tokenizers cut texts by patterns of
their own. split_test.cpp compares ours with them.

    pip install tokenizers==0.23.3 && python3 tests/data/text/make_splits.py

splits.json        for each variant its declaration without the vocabulary of fixture/bpe, and hashes of
                   what it makes of each text: ids, offsets, and the text again
splits_unicode.txt for each 4096 code points hashes of where each pattern cuts, and of what normalization form C changes
"""
import json
import pathlib
import random

from make_fixture import TEXTS, bpe_files, fnv
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

FIXTURE = pathlib.Path(__file__).parent / "fixture"
# Patterns that people wrote, of Llama 3, Qwen 2 and 3, Mistral's Tekken, GPT-4 and DeepSeek.
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def digits():
    return pre_tokenizers.Digits(individual_digits=True)


def tokenizer(steps, normalizer=None, added=(), words=()):
    """`words` are in the vocabulary, and no merge makes them."""
    vocabulary, merges = models.BPE.read_file(*bpe_files())
    vocabulary.update({word: len(vocabulary) + i for i, word in enumerate(words)})
    made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=bool(words)))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    if normalizer:
        made.normalizer = normalizer
    made.add_special_tokens(["<|begin|>"])
    made.add_tokens(list(added))
    return made


def variants():
    llama3 = tokenizer([split(LLAMA3), byte_level()], words=["zqx"])
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|> $B:1",
                                      special_tokens=[("<|begin|>", llama3.token_to_id("<|begin|>"))])])
    return {"llama3": llama3, "qwen": tokenizer([split(QWEN), byte_level()], normalizers.NFC(), ["fish", "née"]),
            "smollm": tokenizer([digits(), byte_level(True)]), "tekken": tokenizer([split(TEKKEN), byte_level()]),
            "gpt4": tokenizer([split(GPT4, "removed", True), byte_level()]),
            "deepseek": tokenizer([split(each) for each in DEEPSEEK] + [digits(), byte_level()])}


def texts():
    draw = random.Random(11)
    parts = ["'s", "'S", "'ſ", "'ll", "'LL", "'Re", " ", "  ", "\n", "\r\n", "\t", "a", "Zb", "12", "3456", "é", "e\u0301",
             "!", "?!", "/", "...", "\u3000", "\xa0", "don't", "I'M", "fish", "ne\u0301e", "\u1100\u1161\u11a8", "각", "漢字",
             "\u0958", "\u212b", "q\u0323\u0307", "q\u0307\u0323", "<|begin|>", "𐐀𐐨", "Ǆǅ", "ª"]
    return TEXTS[:40] + ["".join(draw.choice(parts) for _ in range(draw.randint(1, 25))) for _ in range(80)] + ["zqx azqx zqxa"]


def said(made, text):
    one = made.encode(text)
    parts = [" ".join(map(str, one.ids)), " ".join(f"{a}-{b}" for a, b in one.offsets), made.decode(one.ids, skip_special_tokens=False)]
    return f"{fnv('|'.join(parts)):016x}"


def write_variants():
    result = []
    for name, made in variants().items():
        declared = json.loads(made.to_str())
        vocabulary, _ = models.BPE.read_file(*bpe_files())
        more = {word: number for word, number in declared["model"]["vocab"].items() if word not in vocabulary}
        if more:
            declared["more_vocabulary"] = more
        del declared["model"]["vocab"], declared["model"]["merges"]
        result.append({"name": name, "tokenizer": declared, "expected": [said(made, text) for text in texts()]})
    written = {"texts": texts(), "variants": result}
    (FIXTURE / "splits.json").write_text(json.dumps(written, separators=(",", ":")) + "\n")


def write_unicode():
    cutters = [split(LLAMA3), split(TEKKEN), split(DEEPSEEK[2]), digits()]
    nfc = normalizers.NFC()
    lines = []
    for first in range(0, 0x110000, 0x1000):
        values = [fnv("")] * (len(cutters) + 1)
        for code in range(first, first + 0x1000):
            if 0xD800 <= code <= 0xDFFF:
                continue
            text = "a{0}b {0}{0} 1{0} '{0}".format(chr(code))
            for i, cutter in enumerate(cutters):
                ends = sum(1 << end for _, (_, end) in cutter.pre_tokenize_str(text))
                values[i] = fnv(chr(ends & 0x7F) + chr(ends >> 7), values[i])
            normal = nfc.normalize_str(text)
            if normal != text:
                values[-1] = fnv(normal, values[-1])
        lines.append(f"{first:x} " + " ".join(f"{value:016x}" for value in values))
    (FIXTURE / "splits_unicode.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_variants()
    write_unicode()
