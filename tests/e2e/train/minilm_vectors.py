"""Prints what Hugging Face's transformers make of a few texts with all-MiniLM-L6-v2: minilm_vectors.json is its output.

    scripts/test-data FOLDER      # fetches the model, among others
    python3 -m venv hf && hf/bin/pip install torch transformers
    hf/bin/python tests/e2e/train/minilm_vectors.py FOLDER/models/all-MiniLM-L6-v2 > tests/e2e/train/minilm_vectors.json

The vectors are computed as the model's card says: the mean over the tokens, then length 1.
"""
import json
import sys

import torch
import transformers

TEXTS = [
    "This is an example sentence",
    "Each sentence is converted",
    "The fish came crisp and hot, and nobody hurried us.",
    "Boats",
]

tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModel.from_pretrained(sys.argv[1]).eval()


def vector_of(text):
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        vector = model(**inputs).last_hidden_state[0].mean(0)
    return [round(x, 7) for x in torch.nn.functional.normalize(vector, dim=0).tolist()]


rows = [json.dumps({"text": text, "embedding": vector_of(text)}) for text in TEXTS]
print('{"transformers": "%s",\n "rows": [\n%s]}' % (transformers.__version__, ",\n".join(rows)))
