#include "lockstep/data/text_file.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/files/text_encoding.h"

namespace lockstep {

std::shared_ptr<const TextDataset> open_text_file(const std::string& path, const TextFileOptions& options) {
  const std::string ending = format_ending(path);
  if (ending == ".arrow" || is_saved_dataset(path)) return read_arrow_texts(path, options);
  if (ending == ".csv") return read_csv_texts(path, options);
  if (ending == ".tsv") return read_tsv_texts(path, options);
  if (ending == ".jsonl" || ending == ".ndjson") return read_json_lines_texts(path, options);
  if (ending == ".txt") return read_text_lines(path, options);
  if (ending == ".json") return read_json_texts(path, options);
  if (ending == ".parquet") return read_parquet_texts(path, options);
  if (std::filesystem::is_regular_file(path)) refuse_binary(FileBytes::open(path).view(), path);
  throw Error(
      "the file name's ending, \"" + ending + "\", does not tell the format", path,
      "name a file that ends in .csv, .tsv, .jsonl, .ndjson, .json, .txt, .parquet or .arrow, or call its reader");
}

}  // namespace lockstep
