"""The peer of `lockstep bench trainer`: Hugging Face's Trainer fine-tunes a classifier of texts, under torchrun.

Starts from the folder that Lockstep wrote, prints Trainer's own lines, and saves the model.
"""
import argparse
import csv
import inspect

import torch
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer,
                          TrainingArguments, set_seed)


class Reviews(torch.utils.data.Dataset):
    """Rows of a CSV file as token ids. (`datasets` would be one more import: this is the peer at its quickest.)"""

    def __init__(self, path, text, label, label_ids, tokenizer, max_length):
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.tokens = tokenizer([row[text] for row in rows], truncation=True, max_length=max_length)
        self.labels = [label_ids[row[label]] for row in rows]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {**{name: values[index] for name, values in self.tokens.items()}, "labels": self.labels[index]}


def main():
    parser = argparse.ArgumentParser()
    for name in ("model", "train_file", "text_column", "label_column", "output_dir"):
        parser.add_argument("--" + name, required=True)
    for name in ("max_length", "per_device_train_batch_size", "max_steps", "seed"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--bf16", choices=["true", "false"], required=True)
    arguments = parser.parse_args()

    set_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model)
    train_dataset = Reviews(arguments.train_file, arguments.text_column, arguments.label_column,
                            model.config.label2id, tokenizer, arguments.max_length)
    training_arguments = TrainingArguments(
        output_dir=arguments.output_dir, max_steps=arguments.max_steps, learning_rate=arguments.learning_rate,
        per_device_train_batch_size=arguments.per_device_train_batch_size, save_strategy="no", report_to="none",
        logging_first_step=True, logging_steps=1000000, disable_tqdm=True, use_cpu=True, ddp_backend="gloo",
        seed=arguments.seed, bf16=arguments.bf16 == "true")
    # The argument's name in version 5, and in version 4.
    parameters = inspect.signature(Trainer.__init__).parameters
    tokenizer_argument = "processing_class" if "processing_class" in parameters else "tokenizer"
    trainer = Trainer(model=model, args=training_arguments, train_dataset=train_dataset,
                      data_collator=DataCollatorWithPadding(tokenizer), **{tokenizer_argument: tokenizer})
    trainer.train()
    trainer.save_model()


main()
