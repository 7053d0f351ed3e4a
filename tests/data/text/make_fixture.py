#!/usr/bin/env python3
"""Makes fixture/: small vocabularies, and what Hugging Face's tokenizers do with texts written for this project.

    pip install tokenizers==0.23.3
    python3 make_fixture.py

texts.json      the texts: many scripts, white space, control characters, special tokens in the text
bert/, bpe/     vocabularies that tokenizers trained on them
variants.json   tokenizer.json of each variant, without vocabulary and merges
records.json    which text, pair, truncation and padding each record takes
expected.txt    for each variant and record a hash of ids, token types, masks, offsets and decoded texts
unicode.txt     for each 4096 code points a hash of how each is normalized and classified
"""
import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent / "fixture"
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def fnv(text, value=0xCBF29CE484222325):
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def write(name, content):
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


# --- texts ---------------------------------------------------------------------------------------------------------

PLAIN = """The small harbour was quiet in the morning, and the boats lay still on the grey water.
Nobody had expected the bakery to open on a Sunday; still, there it was, warm and full of people!
"It's not what I'd ordered," she said, "but we'll keep it. They've done their best, haven't they?"
In 1987 the river rose by 3.75 metres within 48 hours -- the old bridge didn't survive it.
He paid $1,249.50 (incl. 19% VAT) for a laptop that wouldn't start; support@example.org never answered.
Our guide, a patient woman with a very dry sense of humour, showed us the caves, the mill and the vineyards.
Don't leave the door open!!! The cat runs out... again & again & again.
Ordering was easy, delivery took two days, the colour is not the one in the picture.
A replica that falls behind holds up every other replica, because gradients are averaged before the update.
The quick brown fox jumps over the lazy dog; THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG.
Mr. O'Neill's sister-in-law lives in Aix-en-Provence, doesn't she?
unaffable unbelievable reorganisation interoperability counterrevolutionary antidisestablishmentarianism
snake_case camelCase PascalCase kebab-case UPPER_CASE x86_64 utf-8 C++17 a=b+c; if(x<=y){z[i]*=2;}
https://www.example.com/path/to/page?query=value&other=1#fragment  and  10.0.0.1:29500
Über den Wolken weht ein kühler Wind, und die Straße nach Süden ist länger, als Jürgen gedacht hatte.
À l'été, les élèves préfèrent les forêts aux musées; où est donc passée la clé de la cave ?
El niño pequeño comió piña mañana por la mañana, ¿verdad? ¡Qué sorpresa tan rara!
Příliš žluťoučký kůň úpěl ďábelské ódy, zatímco zajíc mlčky chroupal řepu.
Đường phố Hà Nội về đêm rất đẹp và yên tĩnh, nhưng trời hơi lạnh.
İstanbul'da ILIK bir akşam; ığdır ve IĞDIR, şişe ve ŞİŞE.
Утром над рекой стоял густой туман, и лодочник долго не решался отчалить.
Пожалуйста, ещё раз проверьте счёт: итого 3 450,00 руб. Съешь же ещё этих мягких булок!
Η μικρή βάρκα έφυγε νωρίς το πρωί από το λιμάνι. ΟΔΥΣΣΕΥΣ, Ὀδυσσεύς.
הסירה הקטנה יצאה מן הנמל בבוקר, והים היה שקט. שָׁלוֹם עֲלֵיכֶם
خرج القارب الصغير من الميناء في الصباح، وكان البحر هادئًا. السَّلَامُ عَلَيْكُمْ
छोटी नाव सुबह बंदरगाह से निकली, और समुद्र शांत था। क्या आप ठीक हैं?
ছোট নৌকাটি সকালে বন্দর ছেড়ে গেল।
சிறிய படகு காலையில் துறைமுகத்தை விட்டு வெளியேறியது.
เรือลำเล็กออกจากท่าในตอนเช้า และทะเลก็สงบ
ទូកតូចមួយបានចាកចេញពីកំពង់ផែនៅពេលព្រឹក។
პატარა ნავი დილით გავიდა ნავსადგურიდან. ᲞᲐᲢᲐᲠᲐ
小船早上離開了港口，海面很平靜。今天天气很好，我们去散步吧！2024年3月15日
朝、小さな船が港を出ました。カタカナとひらがな、漢字も混ざっています。ｶﾞｷﾞ
작은 배가 아침에 항구를 떠났고 바다는 잔잔했다. 안녕하세요, 반갑습니다!
Nearly 50% of the 東京 office (≈120 people) moved to Москва in 2019 – naïve, isn't it?
🚢 The boat left 🌊🌊 at 6 am ☀️ and nobody 👩‍👩‍👧‍👦 waved 👋🏽! Flags: 🇫🇷🇯🇵
“Curly quotes” and ‘single’ ones — with a dash… and an ellipsis • bullet § paragraph © ™ € £ ¥
½ ¾ Ⅷ ² ³ x² + y² = z², ①②③ ５６７ ٣٤٥ १२३ ฿100 5′ 7″ 20°C №7 ‰ ¬ ± × ÷ ≠ ≤ ∞ √2
""".splitlines()

CRAFTED = [
    "", " ", "  ", "\t", "\n", "\r\n", "\n\n\n", " \n \t ", "a", " a", "a ", "  a  ", "a  b", "a   b", "a\nb", "a \n b",
    "a\n\nb", "a \n\n b ", "\u00a0a\u00a0\u00a0b", "a\u2003b\u3000c\u2028d\u2029e\u0085f", "tab\there", "vt\x0bff\x0cend",
    "nul\x00in\x00side", "bell\x07 esc\x1b[0m del\x7f c1\x9f", "\x1c\x1d\x1e\x1f", "zero\u200bwidth\u200djoin\ufeffbom",
    "soft\u00adhyphen", "\ufffd replacement \ufffe \uffff noncharacters", "\ue000 private \U000f0000",
    "'s 't 're 've 'm 'll 'd", "it's they're I've I'm we'll he'd", "IT'S THEY'RE I'LL", "'S 'T", "''s '''t 's's's'",
    " 's 's", "don't", "'", "''", "'x", "rock'n'roll", "'tis the 'season", "\u2019s not \u2019t",
    "!", "!!", "a!", "!a", "a!b?c", "(a)[b]{c}<d>", "...", "-", "--", "a-b", "_", "__init__", "$5", "^~`|\\",
    "[CLS]", "[MASK]", "a [MASK] b", "a[MASK]b", "[mask] [Mask]", "[CLS] twice [SEP] [SEP]", "[UNK][PAD]", "[MASK", "MASK]",
    "<|endoftext|>", "a<|endoftext|>b", "<s>hello</s>", "a <mask> b", "a   <mask>   b", "<mask><mask>",
    "##ing ##", "# # a#b", "x" * 99, "x" * 100, "x" * 101, "boat" * 40, "é" * 100, "é" * 101, "e\u0301" * 60,
    " " * 63 + "a", " " * 64 + "a", " " * 65, "a" * 63 + " b", "a" * 64 + " b", "a" * 65 + "!", "ab " * 40, "." * 70,
    "a" * 60 + "'s and", "a" * 61 + "'re and", "a" * 62 + "'ll and", "a" * 63 + "'t and", "b" * 60 + "'s", "b" * 62 + "'",
    "a" * 50 + " caf\u00e9 " + "b" * 20, "a" * 59 + " \u00e9t\u00e9", "x" * 62 + "\u00e9 y", "x" * 63 + "\u00e9", "1" * 70,
    "cafe\u0301 vs caf\u00e9", "\u0301start", "a\u0301\u0323b\u0327\u0301c", "A\u030A \u00C5 \u212B", "\u1e9b\u0323",
    "\ud55c\uae00 \u1112\u1161\u11ab", "\u4e00\u4e8c\u0301\u4e09", "a\u4e00b \U00020000 \U0002B81F \U0002B820 \U0002B920",
    "\uf900 \ufa0e \U0002F800", "\u3131 \u3400 \u9fff \ua000 \u30fb \u3002", "\U0001D165\U0001D16D x \U0001D16D\U0001D165",
    "\u302e\u302f\u0327 a\u302f\u0301\u302e", "\u0130 \u0131 \u017f \u212a \u1e9e \u03a3\u03c3\u03c2", "\u01c5 \u01c4 \u0149",
    "\U00010400\U00010428 \U0001E900 \U00010D50 \ua7dc \u1c89", "\u0e33\u0e4d \u0f77", "\u2126 \u1fc1 \u037e \u0387 \u1fef",
    "\u226e\u2260\u2270", "\u00b7 \u00bf \u055a \u2e43 \u166d \U000111c9", "\u180e x \u2060 y \u061c", "\u0600 \u06dd \u070f \u08e2",
    "yesterday Yesterday YESTERDAY", "harbour harbours Harbour", "tok1 tok1s  tok2  tok2x", " new york New  York ",
    "\U0001F600" * 20, "\u20e3 1\ufe0f\u20e3", "\U000E0041\U000E007F", "\u05d0\u05b7 \u0627\u064b", "\u2460\u24b6 \u3251 \u2f00",
]


def random_texts(count):
    """More of the same, mixed: pieces of all texts in random order."""
    generator = random.Random(20240229)
    pieces = [w for line in PLAIN for w in line.split(" ")] + [c for c in CRAFTED if len(c) < 20]
    glue = ["", " ", " ", " ", "  ", "\n", "\t", "'", "-", "\u00a0", "\u3000"]
    texts = []
    for _ in range(count):
        texts.append("".join(generator.choice(pieces) + generator.choice(glue) for _ in range(generator.randint(1, 25))))
    return texts


TEXTS = PLAIN + CRAFTED + random_texts(60)


# --- vocabularies --------------------------------------------------------------------------------------------------


def train_word_piece(lowercase):
    # Its own pieces, so that the vocabulary does not depend on the order in which the trainer meets them.
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=900, min_frequency=1, special_tokens=BERT_SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(PLAIN * 2 + CRAFTED, trainer)
    return set(tokenizer.get_vocab())


def bert_vocabulary():
    path = HERE / "bert/vocab.txt"
    if not path.exists():  # kept once made: the trainer breaks ties as it likes
        tokens = (train_word_piece(True) | train_word_piece(False)) - set(BERT_SPECIAL)
        write("bert/vocab.txt", "".join(token + "\n" for token in BERT_SPECIAL + sorted(tokens)))
    return {token: i for i, token in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])}


def bpe_files():
    if not (HERE / "bpe/merges.txt").exists():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=900, min_frequency=1, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"])
        tokenizer.train_from_iterator(PLAIN * 2 + CRAFTED, trainer)
        (HERE / "bpe").mkdir(parents=True, exist_ok=True)
        tokenizer.model.save(str(HERE / "bpe"))
    return str(HERE / "bpe/vocab.json"), str(HERE / "bpe/merges.txt")


# --- variants ------------------------------------------------------------------------------------------------------


def bert(special=True, **normalizer):
    vocab = bert_vocabulary()
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])])
    if special:
        tokenizer.add_special_tokens(BERT_SPECIAL)
    return tokenizer


def bert_added():
    tokenizer = bert(lowercase=True)
    tokenizer.add_tokens(["Yesterday", AddedToken("harbour", single_word=True), AddedToken("New York", lstrip=True),
                          AddedToken("tok1", normalized=False, rstrip=True),
                          AddedToken("tok2", normalized=False, lstrip=True, rstrip=True, single_word=True)])
    return tokenizer


def bert_bare():
    tokenizer = bert(lowercase=False)
    vocab = bert_vocabulary()
    tokenizer.normalizer = None
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


def bpe(prefix=False, trim=False, special=("<|endoftext|>",)):
    tokenizer = Tokenizer(models.BPE.from_file(*bpe_files()))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim, add_prefix_space=prefix)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def roberta(prefix):
    tokenizer = bpe(prefix, special=["<s>", "</s>", "<pad>", "<unk>", AddedToken("<mask>", lstrip=True)])
    ids = {t: tokenizer.token_to_id(t) for t in ("<s>", "</s>")}
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=prefix)
    return tokenizer


def bpe_plain():
    tokenizer = bpe()
    tokenizer.post_processor = None
    tokenizer.decoder = None
    tokenizer.add_tokens([AddedToken("harbour", single_word=True), "tok1", AddedToken("New York", rstrip=True)])
    return tokenizer


VARIANTS = [
    ("bert_uncased", bert, dict(lowercase=True)),
    ("bert_cased", bert, dict(lowercase=False)),
    ("bert_keeps_accents", bert, dict(lowercase=True, strip_accents=False)),
    ("bert_cased_strips_accents", bert, dict(lowercase=False, strip_accents=True)),
    ("bert_not_cleaned", bert, dict(lowercase=True, clean_text=False, handle_chinese_chars=False)),
    ("bert_added_tokens", bert_added, {}),
    ("bert_bare", bert_bare, {}),
    ("gpt2", bpe, {}),
    ("gpt2_prefix_trimmed", bpe, dict(prefix=True, trim=True)),
    ("roberta", roberta, dict(prefix=False)),
    ("roberta_prefix", roberta, dict(prefix=True)),
    ("bpe_plain", bpe_plain, {}),
]


# --- records -------------------------------------------------------------------------------------------------------


def records():
    generator = random.Random(7)
    result = [{"text": i} for i in range(len(TEXTS))]
    for i in range(150):
        record = {"text": generator.randrange(len(TEXTS))}
        if i % 3 != 0:
            record["pair"] = generator.randrange(len(TEXTS))
        if i % 4 == 1:
            record["special"] = False
        if i % 2 == 0:
            record["max_length"] = generator.randint(4, 40)
            record["strategy"] = generator.choice(["longest_first", "longest_first", "only_first", "only_second"])
            record["truncation_side"] = generator.choice(["right", "left"])
        if i % 3 == 0:
            record["pad_to"] = generator.randint(1, 60)
            record["multiple_of"] = generator.choice([0, 8])
            record["padding_side"] = generator.choice(["right", "left"])
        result.append(record)
    return result


def expected(tokenizer, record):
    if "max_length" in record:
        tokenizer.enable_truncation(record["max_length"], strategy=record["strategy"], direction=record["truncation_side"])
    else:
        tokenizer.no_truncation()
    if "pad_to" in record:
        pad = "[PAD]" if tokenizer.token_to_id("[PAD]") is not None else "<pad>"
        tokenizer.enable_padding(direction=record["padding_side"], pad_id=tokenizer.token_to_id(pad), pad_token=pad,
                                 length=record["pad_to"], pad_to_multiple_of=record["multiple_of"] or None)
    else:
        tokenizer.no_padding()
    pair = TEXTS[record["pair"]] if "pair" in record else None
    try:
        encoding = tokenizer.encode(TEXTS[record["text"]], pair, add_special_tokens=record.get("special", True))
    except Exception:  # the texts cannot be cut as asked for
        return "error"
    parts = [" ".join(map(str, encoding.ids)), " ".join(map(str, encoding.type_ids)),
             " ".join(map(str, encoding.attention_mask)), " ".join(map(str, encoding.special_tokens_mask)),
             " ".join(f"{a}-{b}" for a, b in encoding.offsets),
             tokenizer.decode(encoding.ids, skip_special_tokens=False),
             tokenizer.decode(encoding.ids, skip_special_tokens=True)]
    return f"{fnv('|'.join(parts)):016x}"


# --- every code point ----------------------------------------------------------------------------------------------


def unicode_hashes():
    def normalizer(**on):
        options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
        return normalizers.BertNormalizer(**{**options, **on})

    clean, strip = normalizer(clean_text=True), normalizer(strip_accents=True)
    lower, chinese = normalizer(lowercase=True), normalizer(handle_chinese_chars=True)
    words, pattern = pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(add_prefix_space=False)
    for first in range(0, 0x110000, 0x1000):
        value = fnv("")
        for code in range(first, first + 0x1000):
            if 0xD800 <= code <= 0xDFFF:
                continue
            c = chr(code)
            kind = "w s p".split()[len(words.pre_tokenize_str("a" + c + "b")) - 1]
            joins = [p for p, before in zip("LNO", "a1!") if len(pattern.pre_tokenize_str(before + c)) == 1]
            line = [kind, joins[0] if joins else "S"]
            line += [n.normalize_str(c) for n in (clean, strip, lower, chinese)]
            value = fnv("\t".join(line) + "\n", value)
        yield f"{value:016x}"


def main():
    write("texts.json", json.dumps(TEXTS, ensure_ascii=True, indent=0) + "\n")
    all_records = records()
    write("records.json", "[\n" + ",\n".join(json.dumps(r) for r in all_records) + "\n]\n")
    variants, lines = [], []
    for name, make, options in VARIANTS:
        tokenizer = make(**options)
        declared = json.loads(tokenizer.to_str())
        model = "bert" if declared["model"].pop("type") == "WordPiece" else "bpe"
        declared["model"].pop("vocab")
        declared["model"].pop("merges", None)
        variants.append({"name": name, "vocabulary": model, "tokenizer": declared})
        lines.append(name + " " + " ".join(expected(tokenizer, record) for record in all_records))
    write("variants.json", "[\n" + ",\n".join(json.dumps(v) for v in variants) + "\n]\n")
    write("expected.txt", "\n".join(lines) + "\n")
    write("unicode.txt", "\n".join(unicode_hashes()) + "\n")
    print("tokenizers", tokenizers.__version__, len(TEXTS), "texts", len(all_records), "records")


if __name__ == "__main__":
    main()
