"""The models of `lockstep bench step` in Python: the same layers as ours, written as Hugging Face's library writes them."""
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

CROSS_ENTROPY_IGNORES = -100


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(images)).flatten(1))

    def random_batch(self, size, _length):
        return (torch.randn(size, 1, 28, 28),), torch.randint(10, (size,))

    def loss(self, output, labels):
        return F.cross_entropy(output, labels)


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(nn.Linear(width, following) for width, following in zip(sizes, sizes[1:]))

    def forward(self, features):
        for layer in self.layers[:-1]:
            features = F.relu(layer(features))
        return self.layers[-1](features)

    def random_batch(self, size, _length):
        return (torch.randn(size, self.sizes[0]),), torch.randint(self.sizes[-1], (size,))

    def loss(self, output, labels):
        return F.cross_entropy(output, labels)


def split_heads(x, heads):
    size, length, width = x.shape
    return x.view(size, length, heads, width // heads).transpose(1, 2)


def attend(query, key, value, mask, dropout):
    if hasattr(F, "scaled_dot_product_attention"):
        rate = dropout.p if dropout.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, rate).transpose(1, 2).flatten(2)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1)) + mask
    context = dropout(F.softmax(scores, dim=-1)) @ value
    return context.transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.intermediate = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        query, key, value = (split_heads(project(x), self.heads) for project in (self.query, self.key, self.value))
        context = self.attention_output(attend(query, key, value, mask, self.dropout))
        attended = self.attention_norm(self.dropout(context) + x)
        inner = self.output(F.gelu(self.intermediate(attended)))
        return self.output_norm(self.dropout(inner) + attended)


class Bert(nn.Module):
    """BertForSequenceClassification of two labels."""

    vocabulary, positions = 30522, 512

    def __init__(self, width, layers):
        super().__init__()
        self.words = nn.Embedding(self.vocabulary, width, padding_idx=0)
        self.places = nn.Embedding(self.positions, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, width // 64) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids, attention_mask):
        places = torch.arange(ids.size(1)).unsqueeze(0)
        x = self.words(ids) + self.segments(torch.zeros_like(ids)) + self.places(places)
        x = self.dropout(self.norm(x))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))

    def random_batch(self, size, length):
        ids = torch.randint(self.vocabulary, (size, length))
        return (ids, torch.ones_like(ids)), torch.randint(2, (size,))

    def loss(self, output, labels):
        return F.cross_entropy(output, labels)


class GPT2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.intermediate = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        parts = self.query_key_value(self.norm_1(x)).chunk(3, dim=-1)
        query, key, value = (split_heads(part, self.heads) for part in parts)
        x = x + self.dropout(self.attention_output(attend(query, key, value, mask, self.dropout)))
        inner = F.gelu(self.intermediate(self.norm_2(x)), approximate="tanh")
        return x + self.dropout(self.output(inner))


class Gpt2(nn.Module):
    """GPT2LMHeadModel: the head shares the weights of the word embedding."""

    vocabulary, positions = 50257, 1024

    def __init__(self, width, layers):
        super().__init__()
        self.words = nn.Embedding(self.vocabulary, width)
        self.places = nn.Embedding(self.positions, width)
        self.blocks = nn.ModuleList(GPT2Block(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids):
        length = ids.size(1)
        x = self.dropout(self.words(ids) + self.places(torch.arange(length)))
        mask = torch.full((length, length), torch.finfo(x.dtype).min).triu(1)
        for block in self.blocks:
            x = block(x, mask)
        return F.linear(self.norm(x), self.words.weight)

    def random_batch(self, size, length):
        ids = torch.randint(self.vocabulary, (size, length))
        return (ids,), ids

    def loss(self, output, labels):
        return F.cross_entropy(output[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=CROSS_ENTROPY_IGNORES)


class HuggingFace(nn.Module):
    """A model of Hugging Face's library, of the sizes of `like`, which makes its batch and its loss."""

    def __init__(self, model, like):
        super().__init__()
        self.model = model
        self.random_batch, self.loss = like.random_batch, like.loss

    def forward(self, ids, attention_mask=None):
        return self.model(input_ids=ids, attention_mask=attention_mask).logits


def huggingface_model(name):
    """Hugging Face's own BERT or GPT-2 with random weights. Dropout is 0.1, as in ours."""
    import transformers
    transformers.logging.set_verbosity_error()
    if name in GPT2_SIZES:
        width, layers = GPT2_SIZES[name]
        config = transformers.GPT2Config(n_embd=width, n_layer=layers, n_head=width // 64, attn_implementation="sdpa",
                                         use_cache=False)
        return HuggingFace(transformers.GPT2LMHeadModel(config), MODELS[name]())
    width, layers = BERT_SIZES[name]
    config = transformers.BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64,
                                     intermediate_size=4 * width, num_labels=2, attn_implementation="sdpa")
    return HuggingFace(transformers.BertForSequenceClassification(config), MODELS[name]())


BERT_SIZES = {"bert-tiny": (128, 2), "bert-mini": (256, 4), "bert-small": (512, 4), "bert-base": (768, 12)}
GPT2_SIZES = {"gpt2": (768, 12), "gpt2-medium": (1024, 24), "gpt2-large": (1280, 36)}

MODELS = {
    "convnet": ConvNet,
    "mlp": lambda: Mlp([122, 1602, 1602, 1602, 1602, 2]),
    "mlp-wide": lambda: Mlp([122, 1602, 1602, 1602, 1602, 2]),
    "mlp-kdd": lambda: Mlp([122, 128, 64, 32, 16, 2]),
    **{name: functools.partial(Bert, *size) for name, size in BERT_SIZES.items()},
    **{name: functools.partial(Gpt2, *size) for name, size in GPT2_SIZES.items()},
}
