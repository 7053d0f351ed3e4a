#!/usr/bin/env python3
"""Writes the files under fixtures/: small random models, inputs, outputs, losses and gradients of Hugging Face's
implementation, to which transformers_test.cpp compares ours.

    /usr/bin/python3 -m venv --system-site-packages venv && venv/bin/pip install transformers==4.30.2 safetensors
    venv/bin/python tests/models/make_fixtures.py          # BERT and GPT-2
    NEWER/bin/python tests/models/make_fixtures.py encoders  # RoBERTa, DistilBERT, ELECTRA, MPNet
    NEWER/bin/python tests/models/make_fixtures.py decoders  # Llama, Qwen2, Qwen3, Mistral, SmolLM3
    NEWER/bin/python tests/models/make_fixtures.py pickled   # files of torch.save
    NEWER/bin/python tests/models/make_fixtures.py sentences  # poolings and losses of sentence-transformers

The first were made with torch 1.13.1 and transformers 4.30.2, the others with 2.15 and 5.23, decoders with 5.24, and
sentence-transformers 6.2. One folder a model: config.json and model.safetensors as `save_pretrained` writes them, and case-NAME.safetensors
for each batch: "input.*", "output", "loss", "grad.*".
"""
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForMaskedLM, DistilBertForSequenceClassification, ElectraConfig, ElectraForMaskedLM,
                          ElectraForSequenceClassification, GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel,
                          MPNetConfig, MPNetForMaskedLM, MPNetForSequenceClassification, RobertaConfig,
                          RobertaForMaskedLM, RobertaForSequenceClassification)

ROOT = pathlib.Path(__file__).parent / "fixtures"
VOCAB = 41
SMALL_BERT = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
                  max_position_embeddings=16, pad_token_id=0, initializer_range=0.3)
TINY = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20,
            max_position_embeddings=16, initializer_range=0.3)
SMALL_GPT2 = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_inner=40, n_positions=16, pad_token_id=40,
                  bos_token_id=40, eos_token_id=40, initializer_range=0.2)


def ids(size, length):
    return torch.randint(1, VOCAB - 1, (size, length))


def mask(lengths, length, side="right"):
    columns = torch.arange(length)
    rows = [columns < n if side == "right" else columns >= length - n for n in lengths]
    return torch.stack(rows).long()


def save_model(name, model):
    """Biases and norms are random too: the initial zeros and ones would hide mistakes."""
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bias") or "ln_" in key or "LayerNorm" in key or "layer_norm" in key or key.endswith("norm.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.eval()
    model.save_pretrained(ROOT / name, safe_serialization=True)
    for extra in (ROOT / name).glob("generation_config.json"):
        extra.unlink()
    return model


def save_case(name, case, model, inputs, unused=()):
    model.zero_grad(set_to_none=True)
    result = model(**inputs)
    result.loss.backward()
    tensors = {"input." + key: value for key, value in inputs.items()}
    tensors["output"] = result.logits
    tensors["loss"] = result.loss
    for key, parameter in model.named_parameters():  # a tied parameter is listed once
        if key in unused:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        tensors["grad." + key] = parameter.grad
    tensors = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
    safetensors.torch.save_file(tensors, str(ROOT / name / f"case-{case}.safetensors"))


def bert_classifier():
    name, size, length = "bert-classifier", 3, 7
    model = save_model(name, BertForSequenceClassification(BertConfig(**SMALL_BERT, num_labels=3)))
    attention = mask([7, 4, 2], length)
    tokens = ids(size, length) * attention
    labels = torch.tensor([2, 0, 1])
    save_case(name, "one-segment", model, dict(input_ids=ids(size, length), labels=labels))
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0]])
    save_case(name, "two-segments-padded", model,
              dict(input_ids=tokens, attention_mask=attention, token_type_ids=segments, labels=labels))


def bert_activations():
    """gelu_new, relu and tanh in one tiny model each; a regression and a multi-label head."""
    for act, problem, labels in (("gelu_new", "regression", torch.tensor([[0.5], [-1.0]])),
                                 ("relu", "multi_label_classification", torch.tensor([[1.0, 0, 1], [0, 1, 1]]))):
        config = dict(SMALL_BERT, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12)
        name = "bert-" + act.replace("_", "-")
        model = save_model(name, BertForSequenceClassification(
            BertConfig(**config, hidden_act=act, num_labels=labels.shape[1], problem_type=problem)))
        save_case(name, "plain", model, dict(input_ids=ids(2, 5), labels=labels))


def bert_mlm():
    name, size, length = "bert-mlm", 2, 6
    model = save_model(name, BertForMaskedLM(BertConfig(**SMALL_BERT)))
    attention = mask([6, 4], length)
    labels = torch.full((size, length), -100)
    labels[0, 1], labels[0, 5], labels[1, 2] = 7, 11, 40
    save_case(name, "padded", model, dict(input_ids=ids(size, length) * attention, attention_mask=attention, labels=labels))


def gpt2_lm():
    name, size, length = "gpt2-lm", 3, 7
    model = save_model(name, GPT2LMHeadModel(GPT2Config(**SMALL_GPT2)))
    tokens = ids(size, length)
    save_case(name, "no-padding", model, dict(input_ids=tokens, labels=tokens))
    for side in ("right", "left"):
        attention = mask([7, 4, 2], length, side)
        padded = torch.where(attention == 1, tokens, torch.tensor(40))
        labels = torch.where(attention == 1, tokens, torch.tensor(-100))
        inputs = dict(input_ids=padded, attention_mask=attention, labels=labels)
        save_case(name, side + "-padding", model, inputs)
        if side == "left":  # as generation numbers them
            positions = (attention.cumsum(1) - 1).masked_fill(attention == 0, 1)
            save_case(name, "left-padding-positions", model, dict(inputs, position_ids=positions))


def gpt2_classifier():
    name, size, length = "gpt2-classifier", 3, 6
    config = GPT2Config(**SMALL_GPT2, num_labels=3, scale_attn_by_inverse_layer_idx=True)
    model = save_model(name, GPT2ForSequenceClassification(config))
    attention = mask([6, 3, 1], length)
    tokens = torch.where(attention == 1, ids(size, length), torch.tensor(40))
    save_case(name, "right-padding", model,
              dict(input_ids=tokens, attention_mask=attention, labels=torch.tensor([0, 2, 1])))


def encoders():
    """A classifier and a masked language model of each; the second has a decoder of its own in RoBERTa and ELECTRA."""
    distilbert = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 20}
    distilbert |= {key: TINY[key] for key in ("vocab_size", "max_position_embeddings", "initializer_range")}
    families = (
        ("roberta", RobertaConfig, RobertaForSequenceClassification, RobertaForMaskedLM, dict(TINY, type_vocab_size=1)),
        ("distilbert", DistilBertConfig, DistilBertForSequenceClassification, DistilBertForMaskedLM, distilbert),
        ("electra", ElectraConfig, ElectraForSequenceClassification, ElectraForMaskedLM, dict(TINY, embedding_size=12)),
        ("mpnet", MPNetConfig, MPNetForSequenceClassification, MPNetForMaskedLM,
         dict(TINY, max_position_embeddings=30)))
    for name, config, classifier, masked, sizes in families:
        pad = config().pad_token_id
        length = 24 if name == "mpnet" else 7  # far enough for buckets of several distances
        attention = mask([length, 4, 2], length)
        tokens = torch.where(attention == 1, torch.randint(2, VOCAB - 1, (3, length)), torch.tensor(pad))
        model = save_model(name + "-classifier", classifier(config(**sizes, num_labels=3)))
        save_case(name + "-classifier", "padded", model,
                  dict(input_ids=tokens, attention_mask=attention, labels=torch.tensor([2, 0, 1])))
        labels = torch.full((3, length), -100)
        labels[0, 1], labels[0, 5], labels[1, 2] = 7, 11, 40
        for kind, ties in (("mlm", True), ("mlm-untied", False)):
            if not ties and name not in ("roberta", "electra"):
                continue
            model = save_model(f"{name}-{kind}", masked(config(**sizes, tie_word_embeddings=ties)))
            save_case(f"{name}-{kind}", "padded", model,
                      dict(input_ids=tokens, attention_mask=attention, labels=labels),
                      unused=() if ties else ("lm_head.bias",))  # it has the decoder's bias beside


def decoders():
    """Models of Llama's shape, with the settings in which they differ: biases, norms of heads, windows, positions."""
    sizes = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=20, max_position_embeddings=32, initializer_range=0.3, bos_token_id=1, eos_token_id=2)
    llama3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16}
    yarn = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 2.0, "original_max_position_embeddings": 16,
            "beta_fast": 4.0}
    linear = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 3.0}
    kinds = (("llama-lm", transformers.LlamaConfig(**sizes), transformers.LlamaForCausalLM),
             ("llama-lm-llama3", transformers.LlamaConfig(**dict(sizes, hidden_size=32), rope_parameters=llama3,
                                                          attention_bias=True, mlp_bias=True, pad_token_id=0,
                                                          tie_word_embeddings=True), transformers.LlamaForCausalLM),
             ("qwen2-lm", transformers.Qwen2Config(**sizes, rope_parameters=linear, use_sliding_window=True,
                                                   sliding_window=3, max_window_layers=1),
              transformers.Qwen2ForCausalLM),
             ("qwen3-lm", transformers.Qwen3Config(**sizes, head_dim=6, tie_word_embeddings=True),
              transformers.Qwen3ForCausalLM),
             ("mistral-lm", transformers.MistralConfig(**sizes, sliding_window=4, rope_parameters=yarn, head_dim=8),
              transformers.MistralForCausalLM),
             ("smollm3-lm", transformers.SmolLM3Config(**dict(sizes, num_hidden_layers=4), pad_token_id=0),
              transformers.SmolLM3ForCausalLM))
    for name, config, kind in kinds:
        model = save_model(name, kind(config))
        # What a row of padding gives that sees nothing but padding is nobody's business.
        short = (7, 6, 5) if getattr(config, "sliding_window", None) else (7, 4, 2)
        for case, length, lengths in (("no-padding", 9, (9, 9, 9)), ("right-padding", 7, short)):
            attention = mask(lengths, length)
            tokens = torch.where(attention == 1, ids(3, length), torch.tensor(0))
            inputs = dict(input_ids=tokens, labels=torch.where(attention == 1, tokens, torch.tensor(-100)))
            if case != "no-padding":
                inputs["attention_mask"] = attention
            save_case(name, case, model, inputs)


def pickled():
    """One state_dict in both formats of torch.save, and as safetensors."""
    folder = ROOT / "pickled"
    folder.mkdir(exist_ok=True)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))  # its state_dict has "_metadata"
    state = model.state_dict()
    state["parameter"] = torch.nn.Parameter(torch.randn(2, 2))
    state["half"] = torch.randn(3).half()
    state["bfloat16"] = torch.randn(3).bfloat16()
    state["flags"] = torch.tensor([True, False])
    state["table"] = torch.arange(12.0).view(3, 4)
    state["transposed"] = state["table"].t()  # shares its storage
    state["rows"] = state["table"][1:]
    state["empty"] = torch.zeros(0, 4)
    state["scalar"] = torch.tensor(7)
    torch.save(state, folder / "zip.bin")
    torch.save(state, folder / "old.bin", _use_new_zipfile_serialization=False)
    plain = {key: value.detach().clone().contiguous() for key, value in state.items()}
    safetensors.torch.save_file(plain, str(folder / "same.safetensors"))


def sentences():
    """Encoders with each pooling: vectors of three texts a sample, and the loss that tells the second from the others'."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
    from transformers import BertModel, DistilBertModel, MPNetModel
    tiny_distilbert = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 20, "vocab_size": VOCAB,
                       "max_position_embeddings": 16, "initializer_range": 0.3}
    kinds = (("sentence-bert-cls", BertModel(BertConfig(**TINY)), "cls", False),
             ("sentence-distilbert-max", DistilBertModel(DistilBertConfig(**tiny_distilbert)), "max", False),
             ("sentence-mpnet-mean", MPNetModel(MPNetConfig(**dict(TINY, max_position_embeddings=30))), "mean", True))
    for name, model, mode, normalizes in kinds:
        save_model(name, model)
        pooling = Pooling(16, pooling_mode=mode)
        (ROOT / name / "1_Pooling").mkdir(exist_ok=True)
        pooling.save(str(ROOT / name / "1_Pooling"))
        modules = [pooling] + ([Normalize()] if normalizes else [])
        types = ["sentence_transformers.base.modules.transformer.Transformer"]
        types += [f"{type(module).__module__}.{type(module).__name__}" for module in modules]
        (ROOT / name / "modules.json").write_text(json.dumps(
            [{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{kind.split('.')[-1]}", "type": kind}
             for i, kind in enumerate(types)], indent=2) + "\n")
        inputs, vectors = {}, []
        for text, length in enumerate((5, 9, 7)):
            attention = mask([length, 3, 2, length - 1], length)
            tokens = torch.where(attention == 1, torch.randint(2, VOCAB - 1, (4, length)),
                                 torch.tensor(model.config.pad_token_id))
            inputs[f"input_ids_{text}"], inputs[f"attention_mask_{text}"] = tokens, attention
            features = {"attention_mask": attention,
                        "token_embeddings": model(input_ids=tokens, attention_mask=attention).last_hidden_state}
            for module in modules:
                features = module(features)
            vectors.append(features["sentence_embedding"])
        loss = MultipleNegativesRankingLoss(None).compute_loss_from_embeddings(vectors, None)
        loss.backward()
        tensors = {"input." + key: value for key, value in inputs.items()}
        tensors["output"], tensors["loss"] = torch.stack(vectors, 1), loss
        for key, parameter in model.named_parameters():
            if parameter.grad is not None:  # the pooler has none
                tensors["grad." + key] = parameter.grad
        tensors = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
        safetensors.torch.save_file(tensors, str(ROOT / name / "case-padded.safetensors"))


def main():
    torch.manual_seed(20)
    torch.set_num_threads(1)
    if sys.argv[1:] == ["encoders"]:
        return encoders()
    if sys.argv[1:] == ["decoders"]:
        return decoders()
    if sys.argv[1:] == ["pickled"]:
        return pickled()
    if sys.argv[1:] == ["sentences"]:
        return sentences()
    for make in (bert_classifier, bert_activations, bert_mlm, gpt2_lm, gpt2_classifier):
        make()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (ROOT / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")
    print(sum(f.stat().st_size for f in ROOT.rglob("*") if f.is_file()), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
