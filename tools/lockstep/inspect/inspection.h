// The findings of `lockstep inspect` in files. Each function returns an object: "kind" names the function's subject,
// "path" and "bytes" the file and its size.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lockstep/flags/table_flags.h"

namespace lockstep {

using Inspection = nlohmann::ordered_json;

/// A safetensors file, or the shards that a `.safetensors.index.json` names: header, metadata, tensors.
Inspection inspect_weights(const std::string& path);
/// A model folder: configuration, weights, tokenizer, and mismatches between them as "problems".
Inspection inspect_model_folder(const std::string& folder);
/// A checkpoint, all of its bytes verified: step, state of the training, files, weights.
/// @throws Error  if it is damaged
Inspection inspect_checkpoint(const std::string& folder);
/// A folder with checkpoints: each without its weights; damaged ones as "problems".
Inspection inspect_checkpoints(const std::string& folder);
bool is_checkpoint(const std::string& folder);
bool holds_checkpoints(const std::string& folder);
/// A `config.json`: the values that are shown.
Inspection inspect_model_config(const std::string& path);
/// A folder with a tokenizer, or a `tokenizer.json`.
Inspection inspect_tokenizer(const std::string& path);

/// A table of separated values: columns, rows, and the values of columns that hold few different ones.
Inspection inspect_table(const std::string& path, const TableForm& form);
/// JSON Lines: columns, rows and values by the keys of the objects.
Inspection inspect_json_lines(const std::string& path);
/// A JSON document: the questions of a file in SQuAD's format, else its keys.
Inspection inspect_json(const std::string& path);
/// A file of columns, or a folder of such files: rows, and the columns with their types.
Inspection inspect_columns(const char* kind, const std::string& path, const TableSchema& schema);
/// An IDX file: type, dimensions, and the classes of a file of labels.
Inspection inspect_idx(const std::string& path);
/// Lines of plain text.
Inspection inspect_lines(const std::string& path);

/// An inspection as text for people.
std::string inspection_text(const Inspection& found);

}  // namespace lockstep
