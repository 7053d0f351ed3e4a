#!/usr/bin/env python3
"""What Hugging Face's libraries say of a folder, for huggingface_test.cpp. Texts come one a line; JSON goes out.

    PYTHON huggingface_models.py scores FOLDER          the scores of each class, of a model that Lockstep saved
    PYTHON huggingface_models.py train FOLDER OUTPUT    trains that model two steps by Trainer, which saves OUTPUT/checkpoint-2
    PYTHON huggingface_models.py next FOLDER            the next tokens that GPT-2 finds likeliest, as a text
    PYTHON huggingface_models.py make FOLDER TYPE VOCAB a new model of that type ("roberta"), with VOCAB's tokenizer
"""
import json
import logging
import sys

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer,
                          MPNetTokenizer, RobertaTokenizer, Trainer, TrainingArguments)


def scores(folder, texts):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    return {"labels": names, "scores": logits.softmax(-1).tolist()}


def train(folder, output, texts):
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [{"input_ids": tokenizer(text)["input_ids"], "labels": i % model.config.num_labels}
            for i, text in enumerate(texts)]

    def collate(batch):
        padded = tokenizer.pad({"input_ids": [row["input_ids"] for row in batch]}, return_tensors="pt")
        return {**padded, "labels": torch.tensor([row["labels"] for row in batch])}

    args = TrainingArguments(output_dir=output, max_steps=2, learning_rate=1e-3, use_cpu=True, report_to="none",
                             disable_tqdm=True, save_strategy="steps", save_steps=2)
    Trainer(model=model, args=args, train_dataset=rows, data_collator=collate).train()
    tokenizer.save_pretrained(output + "/checkpoint-2")
    return scores(output + "/checkpoint-2", texts)


def next_tokens(folder, texts):
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(texts[0], return_tensors="pt")["input_ids"]
    for _ in range(8):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    return {"text": tokenizer.decode(ids[0])}


def new_tokenizer(kind, vocab):
    if kind == "roberta":
        return RobertaTokenizer(vocab=vocab + "/vocab.json", merges=vocab + "/merges.txt")
    if kind == "mpnet":
        words = ["<s>", "<pad>", "</s>", *open(vocab + "/vocab.txt", encoding="utf-8").read().splitlines()]
        return MPNetTokenizer(vocab={word: i for i, word in enumerate(words)})
    return AutoTokenizer.from_pretrained(vocab)


def make(folder, kind, vocab, texts):
    torch.manual_seed(3)
    tokenizer = new_tokenizer(kind, vocab)
    pad = tokenizer.pad_token_id
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2,
                                  num_attention_heads=2, initializer_range=0.2, pad_token_id=pad, num_labels=3)
    if kind in ("roberta", "mpnet"):
        config.max_position_embeddings = 512 + pad + 1
    model = AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return scores(folder, texts)


def main():
    logging.disable(logging.WARNING)
    out, sys.stdout = sys.stdout, sys.stderr
    texts = sys.stdin.read().splitlines()
    kinds = {"scores": scores, "train": train, "next": next_tokens, "make": make}
    json.dump(kinds[sys.argv[1]](*sys.argv[2:], texts), out)


main()
