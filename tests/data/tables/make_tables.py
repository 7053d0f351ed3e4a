#!/usr/bin/env python3
"""Makes files/: one table, as the programs of the field write it.

    pip install pyarrow==26.0.0
    python3 make_tables.py
"""
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent / "files"
ROWS = 60


def table():
    """Row i; the tests make it again."""
    rows = range(ROWS)
    return pa.table({
        "text": pa.array([None if i % 7 == 3 else f"review {i // 2}: caf\u00e9" for i in rows]),
        "kind": pa.array(["neg", "neutral", "pos"][i % 3] for i in rows),
        "stars": pa.array([None if i % 20 == 19 else i * i - 100 for i in rows], pa.int64()),
        "flag": pa.array([i % 4 < 2 for i in rows]),
        "score": pa.array([i / 4 for i in rows], pa.float64()),
        "small": pa.array([255 - i for i in rows], pa.uint8()),
        "tags": pa.array([["a"] * (i % 3) for i in rows], pa.list_(pa.string())),
        "place": pa.array([{"x": i, "y": [1.5]} for i in rows]),
        "raw": pa.array([b"\xff"] * ROWS),
        "last": pa.array([f"{i}" for i in rows], pa.large_string()),
    })


FEATURES = ('{"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, '
            '"label": {"names": ["neg", "neutral", "pos", "mixed"], "_type": "ClassLabel"}}}}')


def classes():
    """Rows as Hugging Face's datasets write them; -1 is no class."""
    label = pa.array([-1 if i == 5 else i * 2 % 3 for i in range(ROWS)])
    rows = table().select(["text", "last"]).append_column("label", label)
    return rows.replace_schema_metadata({"huggingface": FEATURES})


DELTA = {"text": "DELTA_BYTE_ARRAY", "kind": "DELTA_LENGTH_BYTE_ARRAY", "stars": "DELTA_BINARY_PACKED", "flag": "RLE",
         "score": "BYTE_STREAM_SPLIT", "last": "DELTA_BYTE_ARRAY"}
FILES = {
    "plain": {"compression": "none", "use_dictionary": False},
    "snappy": {"compression": "snappy", "row_group_size": 25},
    "gzip": {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 16},
    "zstd": {"compression": "zstd", "data_page_size": 64, "write_batch_size": 8, "write_page_checksum": True},
    "delta": {"compression": "snappy", "data_page_version": "2.0", "use_dictionary": False, "column_encoding": DELTA},
    "brotli": {"compression": "brotli"},
}


def write_arrow(name, rows, file=False, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with pa.OSFile(str(HERE / name), "wb") as out, new(out, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=16)


def write_arrow_files():
    rows = table()
    rows = rows.set_column(1, "kind", rows["kind"].dictionary_encode())
    write_arrow("stream.arrow", rows)
    write_arrow("file.arrow", rows, file=True)
    write_arrow("zstd.arrow", rows, compression="zstd")
    write_arrow("lz4.arrow", rows, compression="lz4")
    (HERE / "saved").mkdir(exist_ok=True)
    described = classes()
    for shard in range(2):
        write_arrow(f"saved/data-{shard:05}-of-00002.arrow", described.slice(40 * shard, 40))
    names = [{"filename": f"data-{shard:05}-of-00002.arrow"} for shard in range(2)]
    (HERE / "saved/state.json").write_text(json.dumps({"_data_files": names, "_fingerprint": "0", "_split": None}) + "\n")
    (HERE / "saved/dataset_info.json").write_text(json.dumps(json.loads(FEATURES)["info"]) + "\n")



if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, options in FILES.items():
        pq.write_table(table(), HERE / f"{name}.parquet", write_statistics=False, **options)
    pq.write_table(classes(), HERE / "classes.parquet", write_statistics=False)
    write_arrow_files()
