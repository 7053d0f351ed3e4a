"""Writes small weight files, right and wrong, with the verdict of Hugging Face's reader: make_safetensors.py FOLDER

Needs the package safetensors. The test AgreesWithTheReferenceOnItsOwnTestFiles reads FOLDER/manifest.jsonl.
"""
import json
import pathlib
import struct
import sys

import safetensors

F32_1X2X3 = struct.pack("<6f", *range(6))
I32_2X2 = struct.pack("<4i", 1, 2, 3, 4)


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


I32_HEADER = {"test": tensor("I32", [2, 2], 0, 16)}
I32_TEXT = json.dumps(I32_HEADER).encode()
RIGHT = {
    "f32_1x2x3": file_of({"attn.0": tensor("F32", [1, 2, 3], 0, 24)}, F32_1X2X3),
    "f4_1x2": file_of({"attn.0": tensor("F4", [1, 2], 0, 1)}, b"\0"),
    "c64_2x2": file_of({"test": tensor("C64", [2, 2], 0, 32)}, struct.pack("<8f", 1, 0, 0, 2, 3, -1, -1, 1)),
    "scalar_i32": file_of({"test": tensor("I32", [], 0, 4)}, struct.pack("<i", 7)),
    "no_tensor": file_of({}),
    "no_tensor_but_metadata": file_of({"__metadata__": {"framework": "pt"}}),
    "metadata_and_tensor": file_of({"__metadata__": {"a": "b"}, **I32_HEADER}, I32_2X2),
    "spaces_before_the_header": file_of(b"  " + I32_TEXT, I32_2X2),
    "spaces_behind_the_header": file_of(I32_TEXT + b"     ", I32_2X2),
    "length_not_a_multiple_of_8": file_of(I32_TEXT + b" " * (3 - len(I32_TEXT) % 8 + 8), I32_2X2),
    "no_element": file_of({"test": tensor("I32", [2, 0], 0, 0)}),
    "no_element_between_others": file_of({"a": tensor("U8", [1], 0, 1), "e": tensor("F32", [0], 1, 1),
                                          "b": tensor("U8", [1], 1, 2)}, b"xy"),
    "names_in_another_order_than_the_data": file_of({"b": tensor("U8", [1], 1, 2), "a": tensor("U8", [1], 0, 1)}, b"xy"),
    "two_dtypes": file_of({"a": tensor("I32", [2, 2], 0, 16), "b": tensor("F16", [2], 16, 20)}, I32_2X2 + b"\0" * 4),
    "name_of_three_bytes": file_of({"\u20ac": tensor("BOOL", [1], 0, 1)}, b"\1"),
    "five_dimensions": file_of({"test": tensor("F64", [1, 1, 1, 1, 2], 0, 16)}, b"\0" * 16),
    "bf16": file_of({"test": tensor("BF16", [3], 0, 6)}, b"\0" * 6),
}
WRONG = {
    "no_byte": b"",
    "header_is_cut_off": file_of(I32_TEXT[:10], length=1000),
    "header_is_too_large": file_of(b"{}", length=1 << 40),
    "header_is_not_utf8": file_of(b"\xff\xff"),
    "header_is_not_json": file_of(b"{"),
    "data_is_cut_off": file_of(I32_HEADER, I32_2X2[:-2]),
    "bytes_behind_the_data": file_of(I32_HEADER, I32_2X2 + b"more"),
    "shape_does_not_fit_its_bytes": file_of({"test": tensor("I32", [2, 3], 0, 16)}, I32_2X2),
    "shape_overflows": file_of({"test": tensor("I32", [1 << 62, 8], 0, 16)}, I32_2X2),
    "two_tensors_in_one_place": file_of({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 0, 1)}, b"x"),
}


def verdict(content):
    try:
        safetensors.deserialize(content)
        return "ok"
    except safetensors.SafetensorError as error:
        return str(error).split(": ", 1)[-1]


folder = pathlib.Path(sys.argv[1])
lines = []
for kind, files in (("valid", RIGHT), ("invalid", WRONG)):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        expected = verdict(content)
        if (expected == "ok") != (kind == "valid"):
            sys.exit(f"safetensors {safetensors.__version__} does not find {name} {kind}: {expected}")
        (folder / kind / f"{name}.safetensors").write_bytes(content)
        lines.append(json.dumps({"file": f"{kind}/{name}.safetensors", "expected": expected}))
(folder / "manifest.jsonl").write_text("\n".join(lines) + "\n")
print(f"{folder}: {len(RIGHT)} files that safetensors {safetensors.__version__} reads, {len(WRONG)} that it refuses")
