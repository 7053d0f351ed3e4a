"""Writes what Hugging Face's tokenizers does with BERT's own vocabulary: make_bert_cases.py VOCAB TEXTS FOLDER

VOCAB is vocab.txt of bert-base-uncased, TEXTS a JSON list of texts. The tests of tests/data/text/golden_test.cpp read
FOLDER/tokenizers/bert-base-uncased and FOLDER/golden. Needs the package tokenizers.
"""
import hashlib
import json
import pathlib
import shutil
import sys

import tokenizers
from tokenizers.implementations import BertWordPieceTokenizer

PUBLISHED_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

vocabulary, texts, folder = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text()), pathlib.Path(sys.argv[3])
if hashlib.sha256(vocabulary.read_bytes()).hexdigest() != PUBLISHED_SHA256:
    sys.exit(f"{vocabulary} is not the vocabulary of bert-base-uncased: its SHA-256 is not {PUBLISHED_SHA256}")
model, golden = folder / "tokenizers" / "bert-base-uncased", folder / "golden"
for each in (model, golden):
    each.mkdir(parents=True, exist_ok=True)
shutil.copyfile(vocabulary, model / "vocab.txt")
tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
tokenizer.save(str(model / "tokenizer.json"))


def write(name, rows):
    (golden / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{golden / name}: {len(rows)} cases by tokenizers {tokenizers.__version__}")


def ids_of(text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def pair_of(first, second):
    encoding = tokenizer.encode(first, second)
    return {"text": first, "pair": second, "ids": encoding.ids, "token_type_ids": encoding.type_ids,
            "attention_mask": encoding.attention_mask}


def offsets_of(text):
    encoding = tokenizer.encode(text)
    return {"text": text, "vocab": "bert-base-uncased", "lowercase": True, "ids": encoding.ids,
            "offsets": encoding.offsets}


write("bert_uncased_mixed_scripts.jsonl", [{"text": text, "ids": ids_of(text)} for text in texts])
write("bert_uncased_pairs.jsonl", [pair_of(*pair) for pair in zip(texts, texts[1:])])
write("bert_offsets.jsonl", [offsets_of(text) for text in texts[::20]])  # the test loads the vocabulary for each
