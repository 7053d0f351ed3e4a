#!/usr/bin/env python3
"""What Hugging Face writes for training arguments that nobody set, for training_arguments_test.cpp.

    PYTHON training_arguments.py > training_arguments.json
"""
from transformers import TrainingArguments

print(TrainingArguments(output_dir="out", use_cpu=True).to_json_string())
