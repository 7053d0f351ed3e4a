#pragma once

#include <memory>
#include <string>

#include "lockstep/data/csv_encoding.h"
#include "lockstep/data/csv_schema.h"
#include "lockstep/data/tensor_dataset.h"

namespace lockstep {

/// A CSV file as tensors, and what it taught.
struct CsvData {
  std::shared_ptr<TensorDataset> dataset;  ///< "features" [n, d] float32, "labels" [n] int64 if there is a label
  CsvEncoding encoding;                    ///< for reading other files the same way
};

/// Reads a CSV file, plain or gzip, and learns from it what the schema leaves open. To be used on training data.
/// @throws Error  with file, line and column: see CsvTokenizer, CsvColumns and CsvEncoding; as `check_schema`
CsvData read_csv(const std::string& path, const CsvSchema& schema);

/// Reads another file in the same way: what was learned from the training file is applied, not learned anew.
std::shared_ptr<TensorDataset> read_csv(const std::string& path, const CsvSchema& schema, const CsvEncoding& encoding);

/// The number of fields in the first record of a CSV file, plain or gzip; 0 without any.
/// @throws Error  if the file cannot be read, or the record not be split
std::size_t count_csv_fields(const std::string& path, const CsvDialect& dialect = {});

}  // namespace lockstep
